// Programs that run beside a test.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/test_files.h"

namespace millrace::tools {

// A program that was started without a shell between, so that a signal hits it and nothing else.
// Both outputs are in one file. It ends when the test does, however that ends: a program that is
// killed tells its own children nothing, so it is asked to end.
class Launched {
 public:
  Launched(const std::vector<std::string>& words, const std::string& directory,
           const std::string& log)
      : log_(log) {
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    if (::chdir(directory.c_str()) != 0 || !std::freopen(log.c_str(), "w", stdout)) ::_exit(126);
    ::dup2(STDOUT_FILENO, STDERR_FILENO);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ~Launched() {
    if (status_) return;
    Signal(SIGKILL);
    Wait();
  }
  Launched(const Launched&) = delete;
  Launched& operator=(const Launched&) = delete;

  // Nothing when it has ended.
  void Signal(int number) const {
    if (!status_ && pid_ > 1) ::kill(pid_, number);
  }

  // Until the output holds `text` so many times; false after a minute.
  bool Says(const std::string& text, size_t times = 1) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (Count(text) < times) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }

  size_t Count(const std::string& text) const {
    const std::string said = output();
    size_t count = 0;
    for (size_t at = 0; (at = said.find(text, at)) != std::string::npos; at += text.size()) ++count;
    return count;
  }

  std::string output() const { return test::ReadFile(log_); }

  // The exit status; 128 + n for signal n.
  int Wait() {
    while (!HasEnded(0)) {
    }
    return *status_;
  }
  bool HasEnded(int options = WNOHANG) {
    int status = 0;
    if (!status_ && ::waitpid(pid_, &status, options) == pid_)
      status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return status_.has_value();
  }

 private:
  std::string log_;
  pid_t pid_ = -1;
  std::optional<int> status_;
};

}  // namespace millrace::tools
