// What other programs tell millrace-launch by environment variables. Nothing else in the project
// reads any.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "io/base/status.h"

namespace millrace::tools {

// The place of this process among those that mpirun or srun started.
struct Rank {
  size_t rank = 0;
  size_t size = 1;
  bool one_host = false;  // all of them are on this host
  std::string job;        // the same for all of them; "" where the starter does not say
  std::string starter;    // "mpirun" or "srun"
  // Started by `starter` itself, not merely below a script that it started.
  bool is_task = true;
};

// Nothing where neither OMPI_COMM_WORLD_RANK nor SLURM_PROCID is set.
Result<std::optional<Rank>> RankFromEnvironment();

// PATH
std::string SearchPath();

// The address of this host by which an ssh client has reached it, "" if none has: from
// SSH_CONNECTION.
std::string SshServerAddress();

}  // namespace millrace::tools
