// SPDX-License-Identifier: Apache-2.0
// The start, the signals and the exit that all programs share.
#pragma once

#include <string>
#include <vector>

namespace millrace::tools {

// Ctrl-C and SIGTERM as a flag that long work checks now and then, so that it can clean up.

// After this call the first SIGINT or SIGTERM only makes Interrupted() true. A second one kills the
// process.
void CatchInterrupts();

bool Interrupted();

// For programs with connections: a write to a closed connection returns an error instead of killing
// the process.
void IgnoreBrokenPipes();

// Calls `run` with the words of the command line and returns the exit status. A closed standard
// stream stays closed: no file that is opened later gets its descriptor. If memory or threads run
// out in any thread, the program exits with a message and kExitFailure. `name` must live as long as
// the program.
int ProgramMain(const char* name, int (*run)(const std::vector<std::string>& words), int argc,
                char** argv);

// Returns `status`. If it is 0 and standard output could not be written, prints a message and
// returns kExitFailure. ProgramMain calls it. Only a program that exits without returning must call
// it.
int CheckedStatus(const char* name, int status);

}  // namespace millrace::tools
