// Ctrl-C and SIGTERM as a flag that long work checks now and then, so that it can clean up.
#pragma once

namespace millrace::tools {

// After this call the first SIGINT or SIGTERM only makes Interrupted() true. A second one kills the
// process.
void CatchInterrupts();

bool Interrupted();

// For programs with connections: a write to a closed connection returns an error instead of killing
// the process.
void IgnoreBrokenPipes();

}  // namespace millrace::tools
