// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/supervisor.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "profiler/clock.h"
#include "tools/launch/child/process_shim.h"

namespace millrace::launch {
namespace {

// How long to read output after a child has exited, if another process still has its pipes open.
constexpr int64_t kDrainMs = 500;

bool IsIgnored(int signal_number) {
  struct sigaction action;
  return ::sigaction(signal_number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

int SignalForWorkers(int signal_number) {
  return signal_number == SIGHUP ? SIGTERM : signal_number;
}

int64_t NowMs() { return NowNs() / 1000000; }

Supervisor::Supervisor(Console& console) : console_(console) {
  AdoptOrphans();
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&signals, number);
  if (!IsIgnored(SIGHUP)) sigaddset(&signals, SIGHUP);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  signals_ = UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  CHECK(signals_);
}

Supervisor::~Supervisor() {
  children_.clear();
  KillDescendants();
}

Result<size_t> Supervisor::Start(const Words& command, size_t channel, Watch watch) {
  ASSIGN_OR_RETURN(ChildProcess process, ChildProcess::Start(command));
  children_.emplace(next_child_,
                    Child{.process = std::move(process), .channel = channel, .watch = watch});
  return next_child_++;
}

void Supervisor::Send(size_t child, const std::string& message) {
  const auto found = children_.find(child);
  if (found == children_.end()) return;
  found->second.process.Send(message);
  found->second.process.WriteControl();
}

void Supervisor::SendTask(size_t child, const ShimTask& task) { Send(child, EncodeTask(task)); }

void Supervisor::Signal(size_t child, int signal_number) {
  Send(child, EncodeSignal(signal_number));
}

void Supervisor::KillChild(size_t child) {
  const auto found = children_.find(child);
  if (found != children_.end() && !found->second.status)
    ::kill(found->second.process.pid(), SIGKILL);
}

std::vector<Event> Supervisor::Wait(std::optional<int64_t> deadline_ms, int other_fd) {
  while (events_.empty()) {
    std::vector<pollfd> polls = {{signals_.get(), POLLIN, 0}, {other_fd, POLLIN, 0}};
    for (NonblockingWriter* writer : {&console_.out(), &console_.err()})
      if (writer->backlog() > 0) polls.push_back({writer->fd(), POLLOUT, 0});
    for (const auto& [number, child] : children_) {
      if (child.process.has_pending()) polls.push_back({child.process.control(), POLLOUT, 0});
      if (console_.is_full()) continue;
      if (child.has_out) polls.push_back({child.process.out(), POLLIN, 0});
      if (child.has_err) polls.push_back({child.process.err(), POLLIN, 0});
    }
    const int ready = ::poll(polls.data(), polls.size(), PollTimeout(deadline_ms));
    CHECK(ready >= 0 || errno == EINTR);
    // Output comes before exits, so that the last lines of a process come before its exit.
    for (auto& [number, child] : children_) child.process.WriteControl();
    ReadOutputs();
    ReadSignals();
    Reap();
    EndChildren();
    console_.Flush();
    if (polls[1].revents != 0 || (deadline_ms && NowMs() >= *deadline_ms)) break;
  }
  return std::exchange(events_, {});
}

int Supervisor::PollTimeout(std::optional<int64_t> deadline_ms) const {
  std::optional<int64_t> wake_ms = deadline_ms;
  for (const auto& [number, child] : children_) {
    if (!child.status || console_.is_full()) continue;
    wake_ms = std::min(wake_ms.value_or(INT64_MAX), child.reaped_ms + kDrainMs);
  }
  if (!wake_ms) return -1;
  return static_cast<int>(std::clamp<int64_t>(*wake_ms - NowMs(), 0, 1 << 30));
}

void Supervisor::ReadOutputs() {
  if (console_.is_full()) return;
  for (auto& [number, child] : children_) {
    if (child.has_out) child.has_out = ReadStream(number, child, Stream::kOut);
    if (child.has_err) child.has_err = ReadStream(number, child, Stream::kErr);
  }
}

// Returns false at the end of the stream.
bool Supervisor::ReadStream(size_t number, Child& child, Stream stream) {
  const bool is_out = stream == Stream::kOut;
  LineSplitter& splitter = is_out ? child.out : child.err;
  char bytes[65536];
  const ssize_t size =
      ::read(is_out ? child.process.out() : child.process.err(), bytes, sizeof bytes);
  child.is_idle = size < 0 && errno == EAGAIN;
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  std::vector<std::string> lines;
  if (size > 0) {
    splitter.Feed({bytes, static_cast<size_t>(size)}, NowMs(), lines);
  } else {
    splitter.Finish(lines);
  }
  AddLines(number, child, stream, std::move(lines));
  return size > 0;
}

void Supervisor::AddLines(size_t number, Child& child, Stream stream,
                          std::vector<std::string> lines) {
  for (std::string& line : lines) {
    if (stream == Stream::kErr && !child.has_pid) {
      if (const std::optional<pid_t> pid = PidFromShimLine(line)) {
        child.has_pid = true;
        events_.push_back({.kind = Event::Kind::kStarted, .child = number, .pid = *pid});
        continue;
      }
    }
    if (stream == Stream::kErr) child.last_stderr_line = line;
    const bool is_watched = stream == Stream::kOut && child.watch != Watch::kNothing;
    if (!is_watched || child.watch == Watch::kLines)
      console_.ProcessLine(child.channel, stream, line);
    if (is_watched)
      events_.push_back({.kind = Event::Kind::kLine, .child = number, .line = std::move(line)});
  }
}

void Supervisor::ReadSignals() {
  signalfd_siginfo info;
  while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
    const int number = static_cast<int>(info.ssi_signo);
    if (number == SIGCHLD) continue;
    events_.push_back({.kind = Event::Kind::kSignal, .signal_number = number});
  }
}

void Supervisor::Reap() {
  int status = 0;
  for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    const auto child = std::find_if(children_.begin(), children_.end(), [&](const auto& c) {
      return c.second.process.pid() == pid && !c.second.status;
    });
    if (child == children_.end()) continue;  // an adopted orphan
    child->second.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    child->second.reaped_ms = NowMs();
  }
}

// Whether it has exited and all its output was read.
bool Supervisor::HasEnded(const Child& child) const {
  if (!child.status) return false;
  if (!child.has_out && !child.has_err) return true;
  return !console_.is_full() && child.is_idle && NowMs() >= child.reaped_ms + kDrainMs;
}

// Erases the children that have ended, and so closes their pipes: a job can have any number of
// restarts.
void Supervisor::EndChildren() {
  for (auto next = children_.begin(); next != children_.end();) {
    auto& [number, child] = *next;
    if (!HasEnded(child)) {
      ++next;
      continue;
    }
    std::vector<std::string> lines;
    child.out.Finish(lines);
    AddLines(number, child, Stream::kOut, std::exchange(lines, {}));
    child.err.Finish(lines);
    AddLines(number, child, Stream::kErr, std::move(lines));
    events_.push_back({.kind = Event::Kind::kExited,
                       .child = number,
                       .line = std::move(child.last_stderr_line),
                       .status = *child.status});
    next = children_.erase(next);
  }
}

void Supervisor::FlushConsole() {
  while (true) {
    console_.Flush();
    std::vector<pollfd> polls = {{signals_.get(), POLLIN, 0}};
    for (NonblockingWriter* writer : {&console_.out(), &console_.err()})
      if (writer->backlog() > 0) polls.push_back({writer->fd(), POLLOUT, 0});
    if (polls.size() == 1) return;
    ::poll(polls.data(), polls.size(), -1);
    ReadSignals();
    if (!std::exchange(events_, {}).empty()) return;
  }
}

}  // namespace millrace::launch
