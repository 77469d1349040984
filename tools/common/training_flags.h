// SPDX-License-Identifier: Apache-2.0
// The flags that all training programs have: the run folder, the profiler and the job with servers.
#pragma once

#include <optional>

#include "io/base/status.h"
#include "profiler/session.h"
#include "ps/worker/job_session.h"
#include "tools/common/flags.h"
#include "trainer/run/run_folder.h"

namespace millrace::tools {

// For the help. `more` are the flags of the program itself in that group, after --model_out.
FlagGroup RunFlags(const FlagGroup& more);
FlagGroup WorkerFlags();

// Adds to `spec` when the flags of RunFlags (not those of `more`) and WorkerFlags have an effect.
CommandSpec WithTrainingEffects(CommandSpec spec);

// Checks that do not depend on the flags of the program itself.
Status CheckTrainingFlags();

trainer::RunFolderOptions RunFolderFromFlags();
Result<profiler::SessionOptions> ProfileFromFlags();
// The job that this process is a worker of, but for what its model adds to the config; nullopt for
// --mode=single.
Result<std::optional<ps::SessionOptions>> SessionFromFlags();

}  // namespace millrace::tools
