// One process of a job whose ranks were started by mpirun or srun. Each rank runs its own launcher,
// and the launchers exchange notes in a shared folder.
#pragma once

#include <string>

#include "io/base/status.h"
#include "tools/launch/environment.h"
#include "tools/launch/launch_options.h"

namespace millrace::launch {

// Runs this rank's process and returns its exit status. If the process fails, the other ranks stop
// theirs, unless the job is async or ssp and has lost a worker other than the chief.
Result<int> RunRank(const LaunchOptions& options, const Rank& rank, const std::string& directory);

}  // namespace millrace::launch
