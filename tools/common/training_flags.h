// The flags that all training programs have: the run folder, what is measured, and the job with
// servers.
#pragma once

#include <optional>

#include "io/base/status.h"
#include "profiler/session.h"
#include "tools/common/flags.h"
#include "trainer/run/run_folder.h"
#include "trainer/sparse/cluster_backend.h"

namespace millrace::tools {

// For the help. `more` are the program's own flags of that group, behind --model_out.
FlagGroup RunFlags(const FlagGroup& more);
FlagGroup WorkerFlags();

// What can be said without looking at the program's own flags.
Status CheckTrainingFlags();

trainer::RunFolderOptions RunFolderFromFlags();
Result<profiler::SessionOptions> ProfileFromFlags();
// Nothing for --mode=single.
Result<std::optional<trainer::ClusterOptions>> ClusterFromFlags();

}  // namespace millrace::tools
