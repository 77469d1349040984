// SPDX-License-Identifier: Apache-2.0
// An earlier run that a new one continues from, on new data.
#pragma once

#include <optional>
#include <string>

#include "io/base/status.h"
#include "sparse/checkpoint.h"
#include "trainer/sparse/train_options.h"

namespace millrace::trainer {

struct EarlierRun {
  // With optimizer state and counts. None: only the weights of `model` are left of it.
  std::optional<sparse::CheckpointParts> checkpoint = {};
  sparse::CheckpointInfo info = {};  // of the checkpoint
  std::string model = {};            // a model file
};

// `path` is a run folder (its last checkpoint, or else its model), a part of a checkpoint, or a
// model file.
Result<EarlierRun> FindEarlierRun(const std::string& path);

// What a new run starts from: nothing, an earlier run (continue), or weights alone (model_in, or an
// earlier run of which nothing else is left).
struct WeightSource {
  EarlierRun earlier = {};
  bool may_grow = false;  // its num_features may be smaller
  std::string note = {};  // for the user
};
Result<WeightSource> FindWeights(const TrainOptions& options);

}  // namespace millrace::trainer
