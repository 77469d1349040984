// SPDX-License-Identifier: Apache-2.0
// The checkpoints of a run of one process, which are those of a job with one server and one worker
// (sparse/checkpoint.h): a run that resumes from one gives the same model, bit for bit, as an
// uninterrupted one. docs/formats.md has the bytes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "io/rows/row_format.h"
#include "io/state/manifest.h"
#include "sparse/checkpoint.h"
#include "sparse/local_store.h"
#include "trainer/loop/training_state.h"

namespace millrace::trainer {

struct LatestCheckpoint {
  std::optional<TrainingState> state;         // none: the folder is missing or has no checkpoint
  std::unique_ptr<sparse::LocalStore> store;  // of the checkpoint
  std::vector<std::string> warnings;          // about a newer checkpoint, which is corrupt
};

// A run's folder of checkpoints. Not thread-safe.
class RunCheckpoints {
 public:
  // `data`, `input`: see CheckpointInfo.
  RunCheckpoints(std::string folder, std::string data, std::optional<io::RowFormat> input = {})
      : folder_(std::move(folder)), data_(std::move(data)), input_(std::move(input)) {}

  // Writes the checkpoint of `state.steps`, which appears complete or not at all. It and the one
  // before it stay. The first call claims the folder; one that has progress which was neither
  // loaded nor removed is refused.
  Status Save(const sparse::LocalStore& store, const TrainingState& state);

  // Loads the newest checkpoint that is not corrupt, whatever number of servers and workers wrote
  // it, into a new store like `store`. kInvalid: a run with another num_features, rule, number of
  // the rule or order of the data (the message has both values), and progress that cannot be used.
  Result<LatestCheckpoint> LoadLatest(const sparse::LocalStore& store);

 private:
  sparse::CheckpointInfo InfoOf(const sparse::LocalStore& store) const;
  Result<TrainingState> Load(const sparse::CheckpointParts& parts, const sparse::LocalStore& like,
                             std::unique_ptr<sparse::LocalStore>& loaded) const;
  Status Claim();

  std::string folder_;
  std::string data_;
  std::optional<io::RowFormat> input_;
  std::optional<io::Manifest> loaded_;  // names the checkpoint that was loaded
  std::optional<io::FolderClaim> claim_, part_claim_;
};

// The model, optimizer state and counts of an earlier run in `store`, which is new; its
// num_features may be larger.
Status ContinueFrom(const sparse::CheckpointParts& earlier, sparse::LocalStore& store,
                    TrainingState& state);

}  // namespace millrace::trainer
