// SPDX-License-Identifier: Apache-2.0
// Starts programs from tests. Every program starts through the class Program.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/test_files.h"

namespace millrace::test {

// A program that runs next to the test. There is no shell in between, so a signal reaches exactly
// this process. The program gets SIGTERM if the test process exits, so that it can stop its own
// children. The destructor kills it.
class Program {
 public:
  // words[0] is the path of the program. Standard output and standard error go to the file `log`.
  Program(const std::vector<std::string>& words, const std::string& directory,
          const std::string& log);
  // The same with one file for each stream.
  Program(const std::vector<std::string>& words, const std::string& directory,
          const std::string& out, const std::string& err);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Does nothing after the program has exited.
  void Signal(int number) const;

  // Waits until standard output contains `text` this many times. False if the program exits without
  // it, or after two minutes.
  bool WaitForOutput(const std::string& text, size_t times = 1);

  size_t Count(const std::string& text) const;
  std::string output() const;

  // Waits for the exit status; 128 + n for signal n.
  int Wait();
  bool HasExited();

  pid_t pid() const { return pid_; }

 private:
  void Reap(int options);

  std::string out_;
  pid_t pid_ = -1;
  std::optional<int> status_;
};

struct ProgramRun {
  int status = -1;  // 128 + n for signal n
  std::string out;
  std::string err;
};

// Runs a command line of the shell.
ProgramRun RunShell(const std::string& command);

// Runs a built program: "millrace-records", "cat --limit=1 file".
ProgramRun RunProgram(const std::string& name, const std::string& arguments);

// The path of a built program.
std::string ProgramPath(const std::string& name);

// Polls `condition`, for states that no file descriptor reports. False after two minutes.
bool WaitUntil(const std::function<bool()>& condition);

}  // namespace millrace::test
