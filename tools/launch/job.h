// A whole job, from the start of its servers to the end of its last process.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "tools/launch/launch_options.h"
#include "tools/launch/output/console.h"
#include "tools/launch/plan/policy.h"
#include "tools/launch/process_group.h"
#include "tools/launch/supervisor.h"

namespace millrace::tools {

// Tells a file from the one that replaces it.
struct FileMark {
  uint64_t inode = 0;
  int64_t seconds = 0, nanoseconds = 0;  // when it was changed

  bool operator==(const FileMark&) const = default;
};

class Job {
 public:
  // The arguments outlive it.
  Job(const LaunchOptions& options, Crew& crew, Supervisor& supervisor, Console& console)
      : options_(options), crew_(crew), supervisor_(supervisor), console_(console) {}

  // The exit status: 0, or that of the first failure that was not made good by a restart, or
  // 128 + signal when the job was interrupted.
  Result<int> Run();

 private:
  enum class Phase { kStarting, kRunning, kStopping };
  enum class StopReason { kDone, kInterrupt, kFailure, kRestart };
  struct LostProcess {
    Death death;
    int64_t after_ms = 0;
  };

  Status Begin(Start start);
  void Handle(const Event& event);
  void OnExit(Member& member, int status, const std::string& last_words);
  bool Reconnect(Member& member, int status);
  void OnSignal(int signal_number);
  std::optional<FileMark> RunFileNow() const;
  bool HasBegun() const;
  Status Tick();
  void StartWorkersWhenReady();
  void ShowPlacement();

  Status JudgeDeaths();
  Status RestartWorker(const Death& death);
  bool DecideForAll(const std::vector<Death>& deaths);
  std::string DeathsText(const std::vector<Death>& deaths) const;
  FailurePolicy Policy() const;

  void BeginStop(StopReason reason, int signal_number);
  void StopServersAfterWorkers();
  void KillAll();
  int Finish();
  std::string LostText() const;

  std::optional<int64_t> NextDeadline() const;
  int64_t ElapsedMs() const { return NowMs() - begin_ms_; }

  const LaunchOptions& options_;
  Crew& crew_;
  Supervisor& supervisor_;
  Console& console_;

  Phase phase_ = Phase::kStarting;
  Start start_ = Start::kFirst;
  int64_t begin_ms_ = 0;
  std::optional<FileMark> run_before_;  // the run folder's run.json, before this job
  int64_t start_ms_ = 0;                // of this start or restart
  size_t restarts_used_ = 0;
  std::vector<Death> restarted_;  // deaths that restarts were to make good
  bool is_placement_shown_ = false;

  std::vector<Death> deaths_;  // not judged yet
  bool is_chief_done_ = false;
  std::vector<LostProcess> lost_;
  std::optional<Death> failure_;  // the first one
  std::string failure_text_;

  StopReason reason_ = StopReason::kDone;
  int interrupt_signal_ = 0;
  bool are_servers_told_ = false;
  bool is_everything_killed_ = false;

  // Points in time, where something is to be done.
  std::optional<int64_t> start_deadline_, settle_at_, kill_workers_at_, end_servers_at_,
      kill_servers_at_;
};

}  // namespace millrace::tools
