#include "tools/launch/job.h"

#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "tools/common/progress.h"
#include "tools/launch/plan/address.h"

namespace millrace::tools {
namespace {

// A death is judged together with those that follow at once: when a server is killed, a worker may
// be seen to end before it.
constexpr int64_t kSettleMs = 250;
// A job that has failed is over in less than 5 s: so long for its workers, and then for its
// servers.
constexpr int64_t kFailedWorkersMs = 2000;
constexpr int64_t kFailedServersMs = 1000;
constexpr int64_t kInterruptedServersMs = 500;  // after their last worker
constexpr int kLostWorkers = 1;                 // a server's status then
constexpr int kSshFailed = 255;
constexpr int kReconnects = 5;

std::string Seconds(int64_t ms) { return DurationText(static_cast<double>(ms) / 1000); }

std::string SignalName(int number) { return "SIG" + std::string(::sigabbrev_np(number)); }

// Whether the time has come; then it is over.
bool IsDue(std::optional<int64_t>& at, int64_t now_ms) {
  if (!at || now_ms < *at) return false;
  at.reset();
  return true;
}

}  // namespace

Result<int> Job::Run() {
  begin_ms_ = NowMs();
  run_before_ = RunFileNow();
  RETURN_IF_ERROR(Begin(Start::kFirst));
  while (true) {
    for (const Event& event : supervisor_.Wait(NextDeadline())) Handle(event);
    RETURN_IF_ERROR(Tick());
    if (phase_ != Phase::kStopping || crew_.IsAnyAlive()) continue;
    if (reason_ != StopReason::kRestart) return Finish();
    RETURN_IF_ERROR(Begin(HasBegun() ? Start::kResume : Start::kFirst));
  }
}

std::optional<FileMark> Job::RunFileNow() const {
  const std::optional<std::string> run_dir = FlagIn(options_.worker, "run_dir");
  struct stat info = {};
  if (!run_dir || ::stat((*run_dir + "/run.json").c_str(), &info) != 0) return std::nullopt;
  return FileMark{info.st_ino, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
}

// Whether the chief has made the run folder this job's: before that, what is in it is another's,
// and must not be resumed. On other hosts the folder is not seen, and taken for begun.
bool Job::HasBegun() const { return !options_.hosts.empty() || RunFileNow() != run_before_; }

Status Job::Begin(Start start) {
  phase_ = Phase::kStarting;
  start_ = start;
  start_ms_ = NowMs();
  is_placement_shown_ = false;
  are_servers_told_ = is_everything_killed_ = false;
  kill_workers_at_ = end_servers_at_ = kill_servers_at_ = settle_at_ = std::nullopt;
  deaths_.clear();
  is_chief_done_ = false;
  lost_.clear();
  console_.Hold();
  start_deadline_ = start_ms_ + options_.start_timeout_ms;
  RETURN_IF_ERROR(crew_.StartKeepers());
  crew_.StartServers();
  StartWorkersWhenReady();
  return {};
}

void Job::StartWorkersWhenReady() {
  if (phase_ != Phase::kStarting || !crew_.AllServersListen()) return;
  start_deadline_.reset();
  phase_ = Phase::kRunning;
  crew_.StartWorkers(start_);
}

void Job::Handle(const Event& event) {
  if (event.kind == Event::Kind::kSignal) return OnSignal(event.signal_number);
  Member& member = crew_.OfChild(event.child);
  if (event.kind == Event::Kind::kStarted) {
    member.pid = event.pid;
    if (is_placement_shown_)
      console_.Say(NameOf(member.id) + " runs again, with pid " + std::to_string(event.pid));
  }
  if (event.kind == Event::Kind::kLine && member.port == 0) {
    member.port = AnnouncedPort(event.line, member.id.index, options_.shape.num_ps).value_or(0);
    StartWorkersWhenReady();
  }
  if (event.kind == Event::Kind::kExited) {
    member.child.reset();
    OnExit(member, event.status, event.line);
  }
}

void Job::OnExit(Member& member, int status, const std::string& last_words) {
  Death death = {member.id, status, last_words};
  const bool is_expected = status == 0 || member.was_told;
  if (phase_ == Phase::kStopping) {
    const bool counts = reason_ == StopReason::kDone || reason_ == StopReason::kInterrupt;
    const bool obeyed = member.killed_ms || status == 128 + SIGINT ||
                        status == 128 + interrupt_signal_ || member.id.role == Role::kServer;
    // A server whose workers were told to end before the job began has lost them.
    const bool follows = reason_ == StopReason::kInterrupt && member.id.role == Role::kServer &&
                         status == kLostWorkers;
    if (!counts || failure_ || status == 0 || follows || (is_expected && obeyed)) return;
    failure_ = death;
    failure_text_ = crew_.Describe(member.id) + " " + StatusText(status);
    console_.Say(failure_text_);
    return;
  }
  if (Reconnect(member, status)) return;
  if (IsChief(member.id) && status == 0) is_chief_done_ = true;
  const bool is_early = phase_ == Phase::kStarting && member.id.role == Role::kServer;
  if (status == 0 && !is_early) return;
  death.status = std::max(status, 1);
  deaths_.push_back(std::move(death));
  if (!settle_at_) settle_at_ = NowMs() + (crew_.IsAnyAlive() ? kSettleMs : 0);
}

// An sshd that is asked for many connections at once refuses some of them.
bool Job::Reconnect(Member& member, int status) {
  const bool has_begun = member.pid != 0 || is_placement_shown_;
  if (options_.hosts.empty() || status != kSshFailed || has_begun || member.keepers > kReconnects)
    return false;
  if (!crew_.StartKeeper(member).ok()) return false;
  if (member.id.role == Role::kServer) {
    crew_.StartServer(member.id.index);
  } else if (phase_ == Phase::kRunning) {
    crew_.StartWorker(member.id.index, start_);
  }
  return true;
}

void Job::OnSignal(int signal_number) {
  const std::string name = SignalName(signal_number);
  if (phase_ == Phase::kStopping) {
    // Should a reader that has stopped reading hold the end up.
    if (is_everything_killed_) return console_.GiveUp();
    console_.Say(name + " while the job is ending: everything is killed");
    if (reason_ != StopReason::kFailure) reason_ = StopReason::kInterrupt;
    if (interrupt_signal_ == 0) interrupt_signal_ = signal_number;
    return KillAll();
  }
  console_.Say(name + ": the workers are told to end and have " +
               Seconds(options_.stop_timeout_ms) + " to do so; a second one kills everything");
  interrupt_signal_ = signal_number;
  BeginStop(StopReason::kInterrupt, SignalForWorkers(signal_number));
}

Status Job::Tick() {
  const int64_t now_ms = NowMs();
  if (IsDue(start_deadline_, now_ms)) {
    failure_ = Death{{Role::kServer, 0}, 1};
    failure_text_ = crew_.SilentServers() + ": has not said within " +
                    Seconds(options_.start_timeout_ms) + " where it listens (--start_timeout)";
    console_.Say(failure_text_ + ": the job ends");
    BeginStop(StopReason::kFailure, SIGTERM);
  }
  if (IsDue(settle_at_, now_ms)) RETURN_IF_ERROR(JudgeDeaths());
  if (phase_ != Phase::kStarting && !is_placement_shown_ && crew_.AllPidsKnown()) ShowPlacement();
  if (phase_ == Phase::kRunning && !crew_.IsAnyAlive(Role::kWorker) && deaths_.empty())
    BeginStop(StopReason::kDone, 0);
  if (phase_ == Phase::kStopping && !crew_.IsAnyAlive(Role::kWorker)) StopServersAfterWorkers();
  if (IsDue(kill_workers_at_, now_ms) && crew_.IsAnyAlive(Role::kWorker)) {
    console_.Say("not all workers have ended in time: they are killed");
    crew_.Kill(Role::kWorker);
  }
  if (IsDue(end_servers_at_, now_ms) && crew_.IsAnyAlive(Role::kServer)) {
    if (reason_ == StopReason::kDone)
      console_.Say(
          "servers have not ended by themselves after their workers: they are told to end");
    crew_.Signal(Role::kServer, SIGTERM);
  }
  if (IsDue(kill_servers_at_, now_ms)) crew_.Kill(Role::kServer);
  crew_.AbandonStubborn(now_ms);
  return {};
}

void Job::ShowPlacement() {
  if (is_placement_shown_) return;
  is_placement_shown_ = true;
  console_.Print("\n" + crew_.PlacementTable() + "\n");
  if (phase_ == Phase::kRunning) {
    console_.Print("started " + std::to_string(crew_.members().size()) + " process" +
                   (crew_.members().size() == 1 ? "" : "es") + " in " +
                   Seconds(NowMs() - start_ms_) + "\n\n");
  }
  console_.Release();
}

FailurePolicy Job::Policy() const {
  return {.survives_workers = SurvivesWorkers(options_),
          .is_chief_done = is_chief_done_,
          .restarts_left = options_.restarts - restarts_used_};
}

Status Job::JudgeDeaths() {
  std::vector<Death> deaths = std::exchange(deaths_, {});
  settle_at_.reset();
  MarkRepeat(deaths, restarted_);
  if (deaths.empty() || DecideForAll(deaths)) return {};
  for (const Death& death : deaths) {
    if (Judge(death, Policy()) == Verdict::kRestartWorker) {
      RETURN_IF_ERROR(RestartWorker(death));
      continue;
    }
    console_.Say(crew_.Describe(death.id) + " " + StatusText(death.status) +
                 ": the others go on without it");
    lost_.push_back({death, ElapsedMs()});
    if (!failure_) failure_ = death;
  }
  return {};
}

Status Job::RestartWorker(const Death& death) {
  ++restarts_used_;
  restarted_.push_back(death);
  console_.Say(crew_.Describe(death.id) + " " + StatusText(death.status) +
               ": it is started again to rejoin (restart " + std::to_string(restarts_used_) +
               " of " + std::to_string(options_.restarts) + ")");
  RETURN_IF_ERROR(crew_.StartKeeper(crew_.worker(death.id.index)));
  // One that has never run starts with the others.
  if (phase_ == Phase::kRunning) crew_.StartWorker(death.id.index, Start::kRejoin);
  return {};
}

// Ends or restarts the whole job if one of the deaths asks for it.
bool Job::DecideForAll(const std::vector<Death>& deaths) {
  const Verdict verdict = JudgeAll(deaths, Policy());
  if (verdict == Verdict::kEndJob) {
    if (!failure_) failure_ = RootCause(deaths);
    failure_text_ = DeathsText(deaths);
    console_.Say(failure_text_ + ": the job ends" + WhyItEnds(deaths, options_.restarts));
    BeginStop(StopReason::kFailure, SIGTERM);
  }
  if (verdict == Verdict::kRestartJob) {
    ++restarts_used_;
    restarted_.insert(restarted_.end(), deaths.begin(), deaths.end());
    console_.Say(DeathsText(deaths) + ": the whole job is started again from " +
                 (HasBegun() ? "its last checkpoint" : "the beginning") + " (restart " +
                 std::to_string(restarts_used_) + " of " + std::to_string(options_.restarts) + ")");
    failure_.reset();  // whoever was lost comes back
    BeginStop(StopReason::kRestart, SIGKILL);
  }
  return verdict == Verdict::kEndJob || verdict == Verdict::kRestartJob;
}

// The root cause first.
std::string Job::DeathsText(const std::vector<Death>& deaths) const {
  const Death root = RootCause(deaths);
  std::string text = crew_.Describe(root.id) + " " + StatusText(root.status);
  for (const Death& death : deaths) {
    if (death.id == root.id) continue;
    text += ", " + NameOf(death.id) + " " + StatusText(death.status);
  }
  return text;
}

void Job::BeginStop(StopReason reason, int signal_number) {
  if (!deaths_.empty() && !failure_) {
    failure_ = RootCause(deaths_);
    failure_text_ = DeathsText(deaths_);
  }
  const bool failed = reason == StopReason::kFailure;
  const bool had_workers = phase_ == Phase::kRunning && crew_.IsAnyAlive(Role::kWorker);
  phase_ = Phase::kStopping;
  reason_ = reason;
  start_deadline_ = settle_at_ = std::nullopt;
  ShowPlacement();
  if (reason == StopReason::kRestart) return KillAll();
  if (reason == StopReason::kDone) return;
  crew_.Signal(Role::kWorker, signal_number);
  kill_workers_at_ = NowMs() + (failed ? kFailedWorkersMs : options_.stop_timeout_ms);
  if (had_workers) return;
  // Without workers, servers have nothing to wait for.
  are_servers_told_ = true;
  crew_.Signal(Role::kServer, signal_number);
  kill_servers_at_ = NowMs() + (failed ? kFailedServersMs : options_.server_grace_ms);
}

void Job::StopServersAfterWorkers() {
  if (std::exchange(are_servers_told_, true) || reason_ == StopReason::kRestart) return;
  const bool failed = reason_ == StopReason::kFailure;
  const int64_t grace_ms = reason_ == StopReason::kInterrupt
                               ? std::min(kInterruptedServersMs, options_.server_grace_ms)
                               : options_.server_grace_ms;
  end_servers_at_ = NowMs() + (failed ? 0 : grace_ms);
  kill_servers_at_ = *end_servers_at_ + (failed ? kFailedServersMs : options_.server_grace_ms);
}

void Job::KillAll() {
  is_everything_killed_ = true;
  crew_.Kill(Role::kWorker);
  crew_.Kill(Role::kServer);
}

// ", without 1 of 3 workers"
std::string Job::LostText() const {
  if (lost_.empty()) return "";
  return ", without " + std::to_string(lost_.size()) + " of " +
         std::to_string(options_.shape.num_workers) + " workers";
}

int Job::Finish() {
  for (const LostProcess& lost : lost_) {
    console_.Say(NameOf(lost.death.id) + " was lost after " + Seconds(lost.after_ms) + " (it " +
                 StatusText(lost.death.status) + "); the others went on without it");
  }
  const std::string time = " after " + Seconds(ElapsedMs());
  const bool interrupted = reason_ == StopReason::kInterrupt;
  if (interrupted) {
    console_.Say("interrupted" + time);
  } else if (reason_ == StopReason::kFailure) {
    console_.Say("failed" + time + ": " + failure_text_);
  } else {
    console_.Say("done" + time + LostText());
  }
  if (failure_) return failure_->status;
  return interrupted ? 128 + interrupt_signal_ : 0;
}

std::optional<int64_t> Job::NextDeadline() const {
  std::optional<int64_t> next = crew_.NextAbandonMs();
  for (const std::optional<int64_t>& at :
       {start_deadline_, settle_at_, kill_workers_at_, end_servers_at_, kill_servers_at_}) {
    if (at) next = std::min(next.value_or(INT64_MAX), *at);
  }
  return next;
}

}  // namespace millrace::tools
