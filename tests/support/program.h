// Starts one of the built programs through the shell and keeps what it said.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "tests/test_files.h"

namespace millrace::tools {

struct ProgramRun {
  int status = -1;  // the exit status; 128 + signal when a signal ended it
  std::string out;
  std::string err;
};

// `command` is a line for the shell.
inline ProgramRun RunShell(const std::string& command) {
  const test::TemporaryFolder folder;
  const std::string line = "{ " + command + " ; } >" + (folder / "out") + " 2>" + (folder / "err");
  const int status = std::system(line.c_str());
  ProgramRun run;
  run.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  run.out = test::ReadFile(folder / "out");
  run.err = test::ReadFile(folder / "err");
  return run;
}

// "millrace-records", "cat --limit=1 file"
inline ProgramRun RunProgram(const std::string& name, const std::string& arguments) {
  return RunShell(std::string(MILLRACE_BIN_DIR) + "/" + name + " " + arguments);
}

}  // namespace millrace::tools
