// SPDX-License-Identifier: Apache-2.0
// The environment variables that mpirun, srun, Kubernetes, ssh and the shell set. No other code of
// the project reads environment variables.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "io/base/status.h"

namespace millrace::launch {

// The rank of this process among those that mpirun or srun started.
struct Rank {
  size_t rank = 0;
  size_t size = 1;
  bool one_host = false;      // all ranks are on this host
  std::string job;            // the same for all ranks; "" if the starter does not set one
  std::string attempt = "0";  // of a job that was requeued under the same id
  std::string starter;        // "mpirun" or "srun"
  // `starter` started this process itself, not a script that runs it.
  bool is_task = true;
};

// Nothing if neither OMPI_COMM_WORLD_RANK nor SLURM_PROCID is set.
Result<std::optional<Rank>> RankFromEnvironment();

// What tells a process of a cluster that something else starts, such as a pod, its role.
struct PodEnvironment {
  std::optional<std::string> tf_config;    // TF_CONFIG
  std::optional<size_t> completion_index;  // JOB_COMPLETION_INDEX
  std::string host_name;
};
Result<PodEnvironment> PodFromEnvironment();

// PATH
std::string SearchPath();

// This host's address in SSH_CONNECTION, through which an ssh client has connected; "" if it is not
// set.
std::string SshServerAddress();

}  // namespace millrace::launch
