// SPDX-License-Identifier: Apache-2.0
// Checkpoints: the whole state of a store and of its training run in one state file, so that a run
// that resumes from it gives the same model, bit for bit, as an uninterrupted one. docs/formats.md
// has the bytes.
//
// A folder of checkpoints belongs to one run at a time (its RunFolder holds the lock). Half-written
// files of a killed process are removed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "io/rows/row_format.h"
#include "sparse/local_store.h"
#include "trainer/loop/training_state.h"

namespace millrace::trainer {

// Writes FOLDER/checkpoint-<steps>, which appears complete or not at all, and then removes all
// others except the newest one before it. Creates the folder if it is missing. An error leaves the
// earlier checkpoints unchanged. `input`: how the training data is written, for readers of the
// checkpoint as a model.
Status SaveCheckpoint(const std::string& folder, const sparse::LocalStore& store,
                      const TrainingState& state,
                      const std::optional<io::RowFormat>& input = std::nullopt);

struct LatestCheckpoint {
  std::optional<TrainingState> state;  // none: the folder is missing or has no checkpoint
  std::string path;                    // of the loaded checkpoint
  std::vector<std::string> warnings;   // about newer checkpoints, which are corrupt
};

// Loads the newest checkpoint that is not corrupt into `store`, which must be new. Errors leave the
// store unchanged: a checkpoint of another num_features, rule, rate or other option of the rule
// (the message has both values), one that cannot be read, and a folder with corrupt checkpoints
// only.
Result<LatestCheckpoint> LoadLatestCheckpoint(const std::string& folder, sparse::LocalStore& store);

}  // namespace millrace::trainer
