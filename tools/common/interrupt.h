// Ctrl-C and SIGTERM as a question that long work asks now and then, so that it can clean up after
// itself.
#pragma once

namespace millrace::tools {

// From now on the first SIGINT or SIGTERM only makes Interrupted() true; a second one ends the
// process at once.
void CatchInterrupts();

bool Interrupted();

// For programs with connections: a peer that is gone is an error of the write, not the end of the
// process.
void IgnoreBrokenPipes();

}  // namespace millrace::tools
