// SPDX-License-Identifier: Apache-2.0
#include "tests/support/program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace millrace::test {
namespace {

using std::chrono::steady_clock;

constexpr auto kTimeout = std::chrono::minutes(2);

// Runs in the child.
void Redirect(int fd, const std::string& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file < 0 || ::dup2(file, fd) < 0) ::_exit(126);
  ::close(file);
}

// The descriptor becomes readable when the process exits.
int OpenPidFd(pid_t pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }

void ReadAll(int fd) {
  char bytes[4096];
  while (::read(fd, bytes, sizeof bytes) > 0) {
  }
}

}  // namespace

Program::Program(const std::vector<std::string>& words, const std::string& directory,
                 const std::string& log)
    : Program(words, directory, log, "") {}

Program::Program(const std::vector<std::string>& words, const std::string& directory,
                 const std::string& out, const std::string& err)
    : out_(out) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (!directory.empty() && ::chdir(directory.c_str()) != 0) ::_exit(126);
  Redirect(STDOUT_FILENO, out);
  if (err.empty()) {
    ::dup2(STDOUT_FILENO, STDERR_FILENO);
  } else {
    Redirect(STDERR_FILENO, err);
  }
  ::execv(argv[0], argv.data());
  ::_exit(127);
}

Program::~Program() {
  if (status_) return;
  Signal(SIGKILL);
  Wait();
}

void Program::Signal(int number) const {
  if (!status_ && pid_ > 1) ::kill(pid_, number);
}

bool Program::WaitForOutput(const std::string& text, size_t times) {
  const auto deadline = steady_clock::now() + kTimeout;
  const int changes = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  // The folder is watched as well, because the file may not exist yet.
  const std::string folder = out_.substr(0, out_.rfind('/'));
  ::inotify_add_watch(changes, folder.c_str(), IN_CREATE | IN_MODIFY);
  const int exit = OpenPidFd(pid_);
  bool is_found = false;
  while (true) {
    // The exit is checked first, so that output just before it counts.
    const bool has_exited = HasExited();
    is_found = Count(text) >= times;
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - steady_clock::now());
    if (is_found || has_exited || left.count() <= 0) break;
    pollfd fds[] = {{changes, POLLIN, 0}, {exit, POLLIN, 0}};
    ::poll(fds, 2, static_cast<int>(left.count()));
    ReadAll(changes);
  }
  ::close(changes);
  ::close(exit);
  return is_found;
}

size_t Program::Count(const std::string& text) const {
  const std::string all = output();
  size_t count = 0;
  for (size_t at = 0; (at = all.find(text, at)) != std::string::npos; at += text.size()) ++count;
  return count;
}

std::string Program::output() const { return ReadFile(out_); }

void Program::Reap(int options) {
  int status = 0;
  if (!status_ && ::waitpid(pid_, &status, options) == pid_)
    status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int Program::Wait() {
  while (!status_) Reap(0);
  return *status_;
}

bool Program::HasExited() {
  Reap(WNOHANG);
  return status_.has_value();
}

ProgramRun RunShell(const std::string& command) {
  const TemporaryFolder folder;
  Program shell({"/bin/sh", "-c", command}, "", folder / "out", folder / "err");
  ProgramRun run;
  run.status = shell.Wait();
  run.out = ReadFile(folder / "out");
  run.err = ReadFile(folder / "err");
  return run;
}

ProgramRun RunProgram(const std::string& name, const std::string& arguments) {
  return RunShell(ProgramPath(name) + " " + arguments);
}

std::string ProgramPath(const std::string& name) {
  return std::string(MILLRACE_BIN_DIR) + "/" + name;
}

bool WaitUntil(const std::function<bool()>& condition) {
  const auto deadline = steady_clock::now() + kTimeout;
  while (!condition()) {
    if (steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace millrace::test
