// The start and the exit that all programs share.
#pragma once

#include <string>
#include <vector>

namespace millrace::tools {

// Calls `run` with the words of the command line and returns the exit status. A closed standard
// stream stays closed: no file that is opened later gets its descriptor. If any thread runs out of
// memory, the program exits with a message. `name` must live as long as the program.
int ProgramMain(const char* name, int (*run)(const std::vector<std::string>& words), int argc,
                char** argv);

// Returns `status`. If it is 0 and standard output could not be written, prints a message and
// returns kExitFailure. ProgramMain calls it. Only a program that exits without returning must call
// it.
int CheckedStatus(const char* name, int status);

}  // namespace millrace::tools
