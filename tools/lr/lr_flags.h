// SPDX-License-Identifier: Apache-2.0
// The command line of millrace-lr, as options.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/base/status.h"
#include "profiler/session.h"
#include "tools/common/flags.h"
#include "trainer/model/model_file.h"
#include "trainer/run/run_folder.h"
#include "trainer/sparse/cluster_backend.h"
#include "trainer/sparse/sparse_trainer.h"
#include "trainer/sweep/sweep_grid.h"

namespace millrace::lr {

const tools::CommandSpec& LrSpec();

struct LrOptions {
  trainer::TrainOptions train;
  std::optional<ps::SessionOptions> session;  // a worker of a job; none: one process
  trainer::RunFolderOptions run;              // empty path: nothing is written
  profiler::SessionOptions profile;
  uint16_t dashboard_port = 0;  // 0: none
  bool continues = false;       // with the optimizer state of an earlier run
  bool save_state = false;      // at the end
  std::string model_out;        // empty: the run folder's model/
  trainer::ModelFormat model_format = trainer::ModelFormat::kBinary;
  std::vector<trainer::SweepConfig> sweep;  // empty: one model
  uint64_t sweep_halving = 0;               // see SweepOptions
  bool sweep_models = false;                // keep the models of all configurations
};

// Expands file patterns and checks every flag.
Result<LrOptions> LrOptionsFromFlags();

// Names and values of all flags, for run.json.
std::vector<std::pair<std::string, std::string>> LrFlagValues();

}  // namespace millrace::lr
