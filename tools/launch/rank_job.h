// One process of a job whose ranks mpirun or srun has started: each rank is a launcher of its own,
// and they meet in a shared folder.
#pragma once

#include <string>

#include "io/base/status.h"
#include "tools/launch/environment.h"
#include "tools/launch/launch_options.h"

namespace millrace::tools {

// The first num_ps ranks are servers, the others workers.
ProcessId ProcessOfRank(size_t rank, const JobShape& shape);

// The exit status of this rank's process. A rank whose process fails tells the others, which then
// stop theirs, but for async and ssp jobs that have lost a worker other than the chief.
Result<int> RunRank(const LaunchOptions& options, const Rank& rank, const std::string& directory);

}  // namespace millrace::tools
