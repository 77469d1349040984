// SPDX-License-Identifier: Apache-2.0
// Runs a whole job, from the start of its servers to the exit of its last process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "tools/launch/environment.h"
#include "tools/launch/launch_options.h"
#include "tools/launch/output/console.h"
#include "tools/launch/plan/policy.h"
#include "tools/launch/process_group.h"
#include "tools/launch/supervisor.h"

namespace millrace::launch {

// Identifies one version of a file.
struct FileVersion {
  uint64_t inode = 0;
  int64_t mtime_s = 0, mtime_ns = 0;

  bool operator==(const FileVersion&) const = default;
};

class Job {
 public:
  // All arguments must outlive the job.
  Job(const LaunchOptions& options, ProcessGroup& group, Supervisor& supervisor, Console& console)
      : options_(options), group_(group), supervisor_(supervisor), console_(console) {}

  // Returns the exit status: 0, that of the first failure without a successful restart before
  // worker 0 has finished, or 128 + signal if the job was interrupted.
  Result<int> Run();

 private:
  enum class Phase { kStarting, kRunning, kStopping };
  enum class StopReason { kDone, kInterrupt, kFailure, kRestart };
  struct LostProcess {
    ProcessExit exit;
    int64_t after_ms = 0;
  };

  Status Begin(Start start);
  void Handle(const Event& event);
  void HandleExit(Member& member, int status, const std::string& last_stderr_line);
  bool Reconnect(Member& member, int status);
  void HandleSignal(int signal_number);
  std::optional<FileVersion> CurrentRunFile() const;
  bool OwnsRunFolder() const;
  Status HandleDeadlines();
  void StartWorkersWhenReady();
  void ShowPlacement();

  Status DecideOnExits();
  void NoteAfterTheEnd(const ProcessExit& exit);
  Status RestartWorker(const ProcessExit& exit);
  bool DecideForJob(const std::vector<ProcessExit>& exits);
  std::string ExitsText(const std::vector<ProcessExit>& exits) const;
  FailurePolicy Policy() const;

  void BeginStop(StopReason reason, int signal_number);
  void StopServersAfterWorkers();
  void KillAll();
  int Finish();
  std::string LostText() const;

  std::optional<int64_t> NextDeadline() const;
  int64_t ElapsedMs() const { return NowMs() - begin_ms_; }

  const LaunchOptions& options_;
  ProcessGroup& group_;
  Supervisor& supervisor_;
  Console& console_;

  Phase phase_ = Phase::kStarting;
  Start start_ = Start::kFirst;
  int64_t begin_ms_ = 0;
  std::optional<FileVersion> earlier_run_file_;  // run.json in the run folder before this job
  int64_t start_ms_ = 0;                         // of the current start or restart
  size_t restarts_used_ = 0;
  std::vector<ProcessExit> restarted_;  // the exits that caused restarts
  bool is_placement_shown_ = false;

  std::vector<ProcessExit> exits_;  // without a decision yet
  bool is_chief_done_ = false;
  std::vector<LostProcess> lost_;
  std::optional<ProcessExit> failure_;  // the first one
  std::string failure_text_;

  StopReason reason_ = StopReason::kDone;
  int interrupt_signal_ = 0;
  bool are_servers_stopping_ = false;
  bool are_all_killed_ = false;

  // Times at which the job must act.
  std::optional<int64_t> start_deadline_, decide_at_, kill_workers_at_, stop_servers_at_,
      kill_servers_at_;
};

// One process of a job whose ranks were started by mpirun or srun. Each rank runs its own launcher,
// and the launchers exchange notes in a shared folder.

// Runs this rank's process and returns its exit status. If the process fails, the other ranks stop
// theirs, unless the job is async or ssp and has lost a worker other than the chief.
Result<int> RunRank(const LaunchOptions& options, const Rank& rank, const std::string& directory);

}  // namespace millrace::launch
