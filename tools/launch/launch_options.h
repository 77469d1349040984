// SPDX-License-Identifier: Apache-2.0
// The options of a job.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/launch/plan/cluster_task.h"
#include "tools/launch/plan/command.h"
#include "tools/launch/plan/placement.h"

namespace millrace::launch {

struct LaunchOptions {
  JobShape shape;
  std::vector<std::string> hosts;  // ssh destinations; empty: this host, without ssh
  Words ssh = {"ssh"};             // the client and its flags
  Words server = {"millrace-ps"};  // the server program and its additional flags
  Words worker;                    // the command
  Words tls;                       // for servers and workers
  // Something else starts each process of the job, and this one becomes one of them.
  std::optional<ClusterTask> task;
  std::string token_file;             // of such a job; empty: none
  size_t restarts = 0;                // of the whole job or of single workers, in total
  std::string log_dir;                // empty: no log files
  uint16_t dashboard_port = 0;        // of the live page on this host; 0: none
  std::string rendezvous;             // not empty: ranks of mpirun or srun meet in this folder
  int64_t start_timeout_ms = 20'000;  // until all servers listen, and until all ranks have met
  int64_t stop_timeout_ms = 30'000;   // for workers to exit after a first Ctrl-C
  int64_t server_grace_ms = 5'000;    // for servers to exit after all workers
};

// Async and ssp jobs continue when they lose a worker.
inline bool SurvivesWorkers(const LaunchOptions& options) {
  const std::string mode = FlagIn(options.worker, "mode").value_or("");
  return mode == "async" || mode == "ssp";
}

}  // namespace millrace::launch
