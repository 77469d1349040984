// The beginning and the end that all programs share.
#pragma once

#include <string>
#include <vector>

namespace millrace::tools {

// Runs `run` with the words of the command line and returns the exit status. Standard streams that
// are closed stay so: no file that is opened later can become one of them. Lack of memory in any
// thread ends the program with a message. `name` must live as long as the program.
int ProgramMain(const char* name, int (*run)(const std::vector<std::string>& words), int argc,
                char** argv);

// `status`, or a failure with a message if that is 0 and standard output could not be written.
// ProgramMain calls it; only a program that ends without returning needs to.
int CheckedStatus(const char* name, int status);

}  // namespace millrace::tools
