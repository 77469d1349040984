// Ctrl-C and SIGTERM as a question that long work asks now and then, so that it can clean up after
// itself.
#pragma once

namespace millrace::tools {

// From now on the first SIGINT or SIGTERM only makes Interrupted() true; a second one ends the
// process at once.
void CatchInterrupts();

bool Interrupted();

}  // namespace millrace::tools
