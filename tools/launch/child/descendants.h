// The processes below this one.
#pragma once

namespace millrace::tools {

// From now on a descendant whose parent ends becomes a child of this process, whatever session or
// group it has moved to.
void AdoptOrphans();

// Kills all children and what they leave, and waits for each, until none is left. For processes
// that adopt orphans: then no descendant survives.
void KillDescendants();

}  // namespace millrace::tools
