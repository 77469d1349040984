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

namespace millrace::tools {

const CommandSpec& LrSpec();

struct LrOptions {
  trainer::TrainOptions train;
  std::optional<trainer::ClusterOptions> cluster;  // a worker of a job; none: one process
  trainer::RunFolderOptions run;                   // an empty path: nothing is kept
  profiler::SessionOptions profile;
  uint16_t dashboard_port = 0;  // 0: none
  std::string model_out;        // empty: the run folder's model/
  trainer::ModelFormat model_format = trainer::ModelFormat::kBinary;
};

// Files are looked up and every flag is checked.
Result<LrOptions> LrOptionsFromFlags();

// Names and values of all flags, for run.json.
std::vector<std::pair<std::string, std::string>> LrFlagValues();

}  // namespace millrace::tools
