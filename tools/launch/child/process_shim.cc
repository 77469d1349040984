// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/child/process_shim.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <string>

#include "tools/launch/child/child_process.h"
#include "tools/launch/child/program_path.h"
#include "tools/launch/child/shim_message.h"
#include "tools/launch/child/token_file.h"
#include "tools/launch/child/unique_fd.h"

namespace millrace::launch {
namespace {

constexpr std::string_view kPidLine = "millrace-launch: pid ";
constexpr int kKilled = 128 + SIGKILL;
constexpr int kInterrupted = 128 + SIGINT;

// Returns `status`.
int PrintError(const std::string& message, int status) {
  std::fprintf(stderr, "%s\n", message.c_str());
  return status;
}

int StatusForErrno(int error) { return error == ENOENT ? 127 : 126; }

struct Pipe {
  UniqueFd read, write;
};

Result<Pipe> MakePipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return IoError("cannot make a pipe", errno);
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

// Runs in the child, between fork and exec. Waits for a byte from `gate`, so that the shim can
// print the pid before the first output of the process. Returns only if exec failed.
void BecomeProcess(const std::vector<char*>& argv, pid_t shim, int gate) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (::getppid() != shim) ::_exit(kKilled);
  char byte;
  if (::read(gate, &byte, 1) != 1) ::_exit(kKilled);
  const int null_fd = ::open("/dev/null", O_RDONLY);
  ::dup2(null_fd, STDIN_FILENO);
  ::signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execv(argv[0], argv.data());
}

class ProcessShim {
 public:
  explicit ProcessShim(std::string_view search_path) : search_path_(search_path) {}

  int Run() {
    ::prctl(PR_SET_NAME, "millrace-shim", 0, 0, 0);
    AdoptOrphans();
    ::signal(SIGPIPE, SIG_IGN);
    BlockSignals();
    ShimTask task;
    const Status status = ReadTask(task);
    if (status.code() == Code::kCancelled) return kInterrupted;
    if (!status.ok()) return PrintError("millrace-launch: " + status.message(), 1);
    return RunTask(task);
  }

 private:
  void BlockSignals() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int number : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, number);
    ::sigprocmask(SIG_BLOCK, &signals, nullptr);
    signals_ = UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  }

  Status ReadTask(ShimTask& task) {
    while (true) {
      ASSIGN_OR_RETURN(const auto message, messages_.Next());
      if (message) {
        ASSIGN_OR_RETURN(const bool complete, AddToTask(*message, task));
        if (complete) return {};
      } else if (!ReadControl()) {
        return Cancelled("the launcher has exited");
      }
    }
  }

  // False at the end of the input.
  bool ReadControl() {
    char bytes[4096];
    const ssize_t size = ::read(STDIN_FILENO, bytes, sizeof bytes);
    if (size > 0) messages_.Feed({bytes, static_cast<size_t>(size)});
    return size > 0 || (size < 0 && errno == EINTR);
  }

  int RunTask(ShimTask& task) {
    if (::chdir(task.directory.c_str()) != 0) {
      return PrintError(IoError(task.directory + ": cannot work in this folder", errno).message(),
                        126);
    }
    const Result<std::string> program = FindProgram(task.command[0], search_path_);
    if (!program.ok()) {
      const bool exists = program.status().code() != Code::kNotFound;
      return PrintError(program.status().message(), exists ? 126 : 127);
    }
    std::optional<TokenFile> token_file;
    if (!task.token.empty()) {
      Result<TokenFile> made = TokenFile::Create(task.token);
      if (!made.ok()) return PrintError(made.status().message(), 126);
      token_file.emplace(std::move(*made));
      task.command.push_back("--token_file=" + token_file->path());
    }
    task.command[0] = *program;
    const Status started = StartProcess(task.command);
    if (!started.ok()) {
      KillDescendants();
      return PrintError(started.message(), start_error_);
    }
    const int status = WaitForExit();
    KillDescendants();
    return status;
  }

  Status StartProcess(Words& command) {
    ASSIGN_OR_RETURN(Pipe gate, MakePipe());
    ASSIGN_OR_RETURN(Pipe failure, MakePipe());
    std::vector<char*> argv;
    for (std::string& word : command) argv.push_back(word.data());
    argv.push_back(nullptr);
    const pid_t shim = ::getpid();
    process_ = ::fork();
    if (process_ < 0) return IoError("cannot start " + command[0], errno);
    if (process_ == 0) {
      gate.write.Close();
      BecomeProcess(argv, shim, gate.read.get());
      const int error = errno;
      if (::write(failure.write.get(), &error, sizeof error) < 0) ::_exit(126);
      ::_exit(StatusForErrno(error));
    }
    ::setpgid(process_, process_);  // also in the child: a signal can come before that call
    failure.write.Close();
    const std::string line = std::string(kPidLine) + std::to_string(process_) + "\n";
    if (::write(STDERR_FILENO, line.data(), line.size()) < 0 ||
        ::write(gate.write.get(), "", 1) < 0)
      return IoError("cannot start " + command[0], errno);
    int error = 0;
    if (::read(failure.read.get(), &error, sizeof error) <= 0) return {};
    start_error_ = StatusForErrno(error);
    return IoError("cannot start " + command[0], error);
  }

  int WaitForExit() {
    bool has_launcher = true;
    while (true) {
      if (!HandleMessages()) return kKilled;
      pollfd fds[] = {{signals_.get(), POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
      if (::poll(fds, 2, -1) < 0) continue;
      if (fds[0].revents != 0) {
        if (const std::optional<int> status = HandleSignals()) return *status;
      }
      if (fds[1].revents != 0) has_launcher = ReadControl();
      if (!has_launcher) return kKilled;
    }
  }

  // False when all descendants must be killed.
  bool HandleMessages() {
    while (true) {
      const auto message = messages_.Next();
      if (!message.ok()) return false;
      if (!message->has_value()) return true;
      const ShimMessage& m = **message;
      if (m.type != ShimMessageType::kSignal || m.payload.size() != 1) return false;
      if (m.payload[0] == SIGKILL) return false;
      ::kill(-process_, m.payload[0]);
    }
  }

  // The exit status if the process has exited.
  std::optional<int> HandleSignals() {
    signalfd_siginfo info;
    while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
      // The shim ignores SIGTERM, SIGINT and SIGHUP. A sender that signals all processes of a job
      // has also signaled this process, and a second signal would kill it immediately.
    }
    std::optional<int> exit_status;
    int status = 0;
    for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      if (pid != process_) continue;  // an adopted orphan
      exit_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
    return exit_status;
  }

  const std::string search_path_;
  ShimMessageReader messages_;
  UniqueFd signals_;
  pid_t process_ = -1;
  int start_error_ = 126;
};

}  // namespace

int RunProcessShim(std::string_view search_path) { return ProcessShim(search_path).Run(); }

std::optional<pid_t> PidFromShimLine(std::string_view line) {
  if (!line.starts_with(kPidLine)) return std::nullopt;
  line.remove_prefix(kPidLine.size());
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(line.begin(), line.end(), pid);
  if (error != std::errc() || end != line.end() || pid <= 0) return std::nullopt;
  return pid;
}

}  // namespace millrace::launch
