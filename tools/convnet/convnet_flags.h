// SPDX-License-Identifier: Apache-2.0
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

namespace millrace::convnet {

const tools::CommandSpec& ConvnetSpec();

struct ConvnetOptions {
  convnets::NetTrainOptions train;
  bool linear_rate = true;  // falls to 0 over the run; the number of steps depends on the images
  convnets::ImageOptions images;
  std::string train_files, test_files;  // patterns; train_files is empty for synthetic images
  bool synthetic = false;
  size_t synthetic_images = 0;
  std::optional<convnets::ServerOptions> job;  // none: a single process
  trainer::RunFolderOptions run;               // empty path: nothing is written
  profiler::SessionOptions profile;
  std::string model_out;  // empty: the run folder's model/
  std::string graph;      // a file for the graph in DOT, instead of training
};

// Every flag is checked.
Result<ConvnetOptions> ConvnetOptionsFromFlags();

// Names and values of all flags, for run.json.
std::vector<std::pair<std::string, std::string>> ConvnetFlagValues();

}  // namespace millrace::convnet
