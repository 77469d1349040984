// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/job.h"

#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "tools/common/progress.h"

namespace millrace::launch {
namespace {

// The decision on an exit also covers the exits of the next 250 ms: when a server is killed, the
// launcher can see the exit of a worker before that of the server.
constexpr int64_t kExitWindowMs = 250;
// How long workers and then servers of a failed job have to exit. A failed job ends within 5 s.
constexpr int64_t kFailedWorkersMs = 2000;
constexpr int64_t kFailedServersMs = 1000;
constexpr int64_t kInterruptedServersMs = 500;  // after the last worker
constexpr int kLostWorkers = 1;                 // exit status of a server without workers
constexpr int kSshFailed = 255;
constexpr int kReconnects = 5;

std::string Seconds(int64_t ms) { return tools::DurationText(static_cast<double>(ms) / 1000); }

std::string SignalName(int number) { return "SIG" + std::string(::sigabbrev_np(number)); }

// Whether the time `at` has come. Resets `at` if so.
bool IsDue(std::optional<int64_t>& at, int64_t now_ms) {
  if (!at || now_ms < *at) return false;
  at.reset();
  return true;
}

}  // namespace

Result<int> Job::Run() {
  begin_ms_ = NowMs();
  earlier_run_file_ = CurrentRunFile();
  RETURN_IF_ERROR(Begin(Start::kFirst));
  while (true) {
    for (const Event& event : supervisor_.Wait(NextDeadline())) Handle(event);
    RETURN_IF_ERROR(HandleDeadlines());
    if (phase_ != Phase::kStopping || group_.IsAnyAlive()) continue;
    if (reason_ != StopReason::kRestart) return Finish();
    RETURN_IF_ERROR(Begin(OwnsRunFolder() ? Start::kResume : Start::kFirst));
  }
}

std::optional<FileVersion> Job::CurrentRunFile() const {
  const std::optional<std::string> run_dir = FlagIn(options_.worker, "run_dir");
  struct stat info = {};
  if (!run_dir || ::stat((*run_dir + "/run.json").c_str(), &info) != 0) return std::nullopt;
  return FileVersion{info.st_ino, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
}

// Whether the chief has written this job's run.json. Until then the folder can hold another run,
// which must not be resumed. A folder on another host is not visible here; the job assumes that it
// owns it.
bool Job::OwnsRunFolder() const {
  return !options_.hosts.empty() || CurrentRunFile() != earlier_run_file_;
}

Status Job::Begin(Start start) {
  phase_ = Phase::kStarting;
  start_ = start;
  start_ms_ = NowMs();
  is_placement_shown_ = false;
  are_servers_stopping_ = are_all_killed_ = false;
  kill_workers_at_ = stop_servers_at_ = kill_servers_at_ = decide_at_ = std::nullopt;
  exits_.clear();
  is_chief_done_ = false;
  lost_.clear();
  console_.Hold();
  start_deadline_ = start_ms_ + options_.start_timeout_ms;
  RETURN_IF_ERROR(group_.StartShims());
  group_.StartServers();
  StartWorkersWhenReady();
  return {};
}

void Job::StartWorkersWhenReady() {
  if (phase_ != Phase::kStarting || !group_.AllServersListen()) return;
  start_deadline_.reset();
  phase_ = Phase::kRunning;
  group_.StartWorkers(start_);
}

void Job::Handle(const Event& event) {
  if (event.kind == Event::Kind::kSignal) return HandleSignal(event.signal_number);
  Member& member = group_.MemberOfChild(event.child);
  if (event.kind == Event::Kind::kStarted) {
    member.pid = event.pid;
    if (is_placement_shown_)
      console_.Note(NameOf(member.id) + " restarted with pid " + std::to_string(event.pid));
  }
  if (event.kind == Event::Kind::kLine && member.port == 0) {
    member.port = ListeningPort(event.line, member.id.index, options_.shape.num_ps).value_or(0);
    StartWorkersWhenReady();
  }
  if (event.kind == Event::Kind::kExited) {
    member.child.reset();
    HandleExit(member, event.status, event.line);
  }
}

void Job::HandleExit(Member& member, int status, const std::string& last_stderr_line) {
  ProcessExit exit = {member.id, status, last_stderr_line};
  const bool is_expected = status == 0 || member.was_signaled;
  if (phase_ == Phase::kStopping) {
    const bool counts = reason_ == StopReason::kDone || reason_ == StopReason::kInterrupt;
    const bool obeyed = member.killed_ms || status == 128 + SIGINT ||
                        status == 128 + interrupt_signal_ || member.id.role == Role::kServer;
    // Workers that were interrupted before the job began have left their server, which then fails.
    const bool follows = reason_ == StopReason::kInterrupt && member.id.role == Role::kServer &&
                         status == kLostWorkers;
    if (!counts || failure_ || status == 0 || follows || (is_expected && obeyed)) return;
    if (is_chief_done_) return NoteAfterTheEnd(exit);
    failure_ = exit;
    failure_text_ = group_.Describe(member.id) + " " + StatusText(status);
    console_.Note(failure_text_);
    return;
  }
  if (Reconnect(member, status)) return;
  if (IsChief(member.id) && status == 0) is_chief_done_ = true;
  const bool is_early = phase_ == Phase::kStarting && member.id.role == Role::kServer;
  if (status == 0 && !is_early) return;
  exit.status = std::max(status, 1);
  exit.has_begun = OwnsRunFolder();
  exits_.push_back(std::move(exit));
  if (!decide_at_) decide_at_ = NowMs() + (group_.IsAnyAlive() ? kExitWindowMs : 0);
}

// An sshd that gets many connections at the same time rejects some of them.
bool Job::Reconnect(Member& member, int status) {
  const bool was_started = member.pid != 0 || is_placement_shown_;
  if (options_.hosts.empty() || status != kSshFailed || was_started ||
      member.shims_started > kReconnects)
    return false;
  if (!group_.StartShim(member).ok()) return false;
  if (member.id.role == Role::kServer) {
    group_.StartServer(member.id.index);
  } else if (phase_ == Phase::kRunning) {
    group_.StartWorker(member.id.index, start_);
  }
  return true;
}

void Job::HandleSignal(int signal_number) {
  const std::string name = SignalName(signal_number);
  if (phase_ == Phase::kStopping) {
    // A reader that has stopped reading must not delay the exit.
    if (are_all_killed_) return console_.CloseOutputs();
    console_.Note(name + " while the job is stopping: killing all processes");
    if (reason_ != StopReason::kFailure) reason_ = StopReason::kInterrupt;
    if (interrupt_signal_ == 0) interrupt_signal_ = signal_number;
    return KillAll();
  }
  console_.Note(name + ": stopping the workers within " + Seconds(options_.stop_timeout_ms) +
                "; a second signal kills all processes");
  interrupt_signal_ = signal_number;
  BeginStop(StopReason::kInterrupt, SignalForWorkers(signal_number));
}

Status Job::HandleDeadlines() {
  const int64_t now_ms = NowMs();
  if (IsDue(start_deadline_, now_ms)) {
    failure_ = ProcessExit{{Role::kServer, 0}, 1};
    failure_text_ = group_.ServersNotListening() + ": not listening after " +
                    Seconds(options_.start_timeout_ms) + " (--start_timeout)";
    console_.Note(failure_text_ + ": stopping the job");
    BeginStop(StopReason::kFailure, SIGTERM);
  }
  if (IsDue(decide_at_, now_ms)) RETURN_IF_ERROR(DecideOnExits());
  if (phase_ != Phase::kStarting && !is_placement_shown_ && group_.AllPidsKnown()) ShowPlacement();
  if (phase_ == Phase::kRunning && !group_.IsAnyAlive(Role::kWorker) && exits_.empty())
    BeginStop(StopReason::kDone, 0);
  if (phase_ == Phase::kStopping && !group_.IsAnyAlive(Role::kWorker)) StopServersAfterWorkers();
  if (IsDue(kill_workers_at_, now_ms) && group_.IsAnyAlive(Role::kWorker)) {
    console_.Note("not all workers have exited in time: killing them");
    group_.Kill(Role::kWorker);
  }
  if (IsDue(stop_servers_at_, now_ms) && group_.IsAnyAlive(Role::kServer)) {
    if (reason_ == StopReason::kDone)
      console_.Note("servers have not exited after their workers: sending SIGTERM");
    group_.Signal(Role::kServer, SIGTERM);
  }
  if (IsDue(kill_servers_at_, now_ms)) group_.Kill(Role::kServer);
  group_.KillUnresponsive(now_ms);
  return {};
}

void Job::ShowPlacement() {
  if (is_placement_shown_) return;
  is_placement_shown_ = true;
  console_.Print("\n" + group_.PlacementTable() + "\n");
  if (phase_ == Phase::kRunning) {
    console_.Print("started " + std::to_string(group_.members().size()) + " process" +
                   (group_.members().size() == 1 ? "" : "es") + " in " +
                   Seconds(NowMs() - start_ms_) + "\n\n");
  }
  console_.Release();
}

FailurePolicy Job::Policy() const {
  return {.survives_workers = SurvivesWorkers(options_),
          .is_chief_done = is_chief_done_,
          .restarts_left = options_.restarts - restarts_used_};
}

Status Job::DecideOnExits() {
  std::vector<ProcessExit> exits = std::exchange(exits_, {});
  decide_at_.reset();
  MarkRepeat(exits, restarted_);
  if (exits.empty() || DecideForJob(exits)) return {};
  for (const ProcessExit& exit : exits) {
    if (is_chief_done_) {
      NoteAfterTheEnd(exit);
      continue;
    }
    if (Decide(exit, Policy()) == Decision::kRestartWorker) {
      RETURN_IF_ERROR(RestartWorker(exit));
      continue;
    }
    console_.Note(group_.Describe(exit.id) + " " + StatusText(exit.status) +
                  ": the other processes continue without it");
    lost_.push_back({exit, ElapsedMs()});
    if (!failure_) failure_ = exit;
  }
  return {};
}

// Such an exit does not change the exit status of the job: worker 0 has saved the model.
void Job::NoteAfterTheEnd(const ProcessExit& exit) {
  console_.Note(group_.Describe(exit.id) + " " + StatusText(exit.status) + AfterTheEnd());
}

Status Job::RestartWorker(const ProcessExit& exit) {
  ++restarts_used_;
  restarted_.push_back(exit);
  console_.Note(group_.Describe(exit.id) + " " + StatusText(exit.status) +
                ": restarting it to rejoin (restart " + std::to_string(restarts_used_) + " of " +
                std::to_string(options_.restarts) + ")");
  RETURN_IF_ERROR(group_.StartShim(group_.worker(exit.id.index)));
  // A worker that has not run yet starts with the other workers.
  if (phase_ == Phase::kRunning) group_.StartWorker(exit.id.index, Start::kRejoin);
  return {};
}

// Ends or restarts the whole job if the exits require it. Returns whether they do.
bool Job::DecideForJob(const std::vector<ProcessExit>& exits) {
  const Decision decision = DecideAll(exits, Policy());
  if (decision == Decision::kEndJob) {
    if (!failure_) failure_ = RootCause(exits);
    failure_text_ = ExitsText(exits);
    console_.Note(failure_text_ + ": stopping the job" + EndReason(exits, options_.restarts));
    BeginStop(StopReason::kFailure, SIGTERM);
  }
  if (decision == Decision::kRestartJob) {
    ++restarts_used_;
    restarted_.insert(restarted_.end(), exits.begin(), exits.end());
    console_.Note(ExitsText(exits) + ": restarting the whole job from " +
                  (OwnsRunFolder() ? "its last checkpoint" : "the beginning") + " (restart " +
                  std::to_string(restarts_used_) + " of " + std::to_string(options_.restarts) +
                  ")");
    failure_.reset();  // lost workers come back
    BeginStop(StopReason::kRestart, SIGKILL);
  }
  return decision == Decision::kEndJob || decision == Decision::kRestartJob;
}

// The root cause comes first.
std::string Job::ExitsText(const std::vector<ProcessExit>& exits) const {
  const ProcessExit root = RootCause(exits);
  std::string text = group_.Describe(root.id) + " " + StatusText(root.status);
  for (const ProcessExit& exit : exits) {
    if (exit.id == root.id) continue;
    text += ", " + NameOf(exit.id) + " " + StatusText(exit.status);
  }
  return text;
}

void Job::BeginStop(StopReason reason, int signal_number) {
  if (!exits_.empty() && !failure_) {
    failure_ = RootCause(exits_);
    failure_text_ = ExitsText(exits_);
  }
  const bool failed = reason == StopReason::kFailure;
  const bool had_workers = phase_ == Phase::kRunning && group_.IsAnyAlive(Role::kWorker);
  phase_ = Phase::kStopping;
  reason_ = reason;
  start_deadline_ = decide_at_ = std::nullopt;
  ShowPlacement();
  if (reason == StopReason::kRestart) return KillAll();
  if (reason == StopReason::kDone) return;
  group_.Signal(Role::kWorker, signal_number);
  kill_workers_at_ = NowMs() + (failed ? kFailedWorkersMs : options_.stop_timeout_ms);
  if (had_workers) return;
  // Without workers there is no reason to delay the servers.
  are_servers_stopping_ = true;
  group_.Signal(Role::kServer, signal_number);
  kill_servers_at_ = NowMs() + (failed ? kFailedServersMs : options_.server_grace_ms);
}

void Job::StopServersAfterWorkers() {
  if (std::exchange(are_servers_stopping_, true) || reason_ == StopReason::kRestart) return;
  const bool failed = reason_ == StopReason::kFailure;
  const int64_t grace_ms = reason_ == StopReason::kInterrupt
                               ? std::min(kInterruptedServersMs, options_.server_grace_ms)
                               : options_.server_grace_ms;
  stop_servers_at_ = NowMs() + (failed ? 0 : grace_ms);
  kill_servers_at_ = *stop_servers_at_ + (failed ? kFailedServersMs : options_.server_grace_ms);
}

void Job::KillAll() {
  are_all_killed_ = true;
  group_.Kill(Role::kWorker);
  group_.Kill(Role::kServer);
}

// ", without 1 of 3 workers"
std::string Job::LostText() const {
  if (lost_.empty()) return "";
  return ", without " + std::to_string(lost_.size()) + " of " +
         std::to_string(options_.shape.num_workers) + " workers";
}

int Job::Finish() {
  for (const LostProcess& lost : lost_) {
    console_.Note(NameOf(lost.exit.id) + " was lost after " + Seconds(lost.after_ms) + " (it " +
                  StatusText(lost.exit.status) + "); the other processes continued without it");
  }
  const std::string time = " after " + Seconds(ElapsedMs());
  const bool interrupted = reason_ == StopReason::kInterrupt;
  if (interrupted) {
    console_.Note("interrupted" + time);
  } else if (reason_ == StopReason::kFailure) {
    console_.Note("failed" + time + ": " + failure_text_);
  } else {
    console_.Note("done" + time + LostText());
  }
  if (failure_) return failure_->status;
  return interrupted ? 128 + interrupt_signal_ : 0;
}

std::optional<int64_t> Job::NextDeadline() const {
  std::optional<int64_t> next = group_.NextKillMs();
  for (const std::optional<int64_t>& at :
       {start_deadline_, decide_at_, kill_workers_at_, stop_servers_at_, kill_servers_at_}) {
    if (at) next = std::min(next.value_or(INT64_MAX), *at);
  }
  return next;
}

}  // namespace millrace::launch
