// The command line of millrace-convnet, as options.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "convnets/input/image_set.h"
#include "convnets/train/net_trainer.h"
#include "convnets/train/server_backend.h"
#include "io/base/status.h"
#include "profiler/session.h"
#include "tools/common/flags.h"
#include "trainer/run/run_folder.h"

namespace millrace::tools {

const CommandSpec& ConvnetSpec();

struct ConvnetOptions {
  convnets::NetTrainOptions train;
  bool rate_falls = true;  // to 0 over the steps of the run, which only the images tell
  convnets::ImageOptions images;
  std::string train_files, test_files;  // patterns; the first is empty for synthetic images
  bool synthetic = false;
  size_t synthetic_images = 0;
  std::optional<convnets::ServerOptions> job;  // none: one process
  trainer::RunFolderOptions run;               // an empty path: nothing is kept
  profiler::SessionOptions profile;
  std::string model_out;  // empty: the run folder's model/
  std::string graph;      // a file for the graph in DOT; nothing is trained
};

// Every flag is checked.
Result<ConvnetOptions> ConvnetOptionsFromFlags();

// Names and values of all flags, for run.json.
std::vector<std::pair<std::string, std::string>> ConvnetFlagValues();

}  // namespace millrace::tools
