// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a sparse model, the same whatever wrote them: one process, or any number of
// servers. A checkpoint has one part per shard, a state file (io/state) with the slots of the
// shard's features under their keys in the whole model. docs/formats.md has the fields.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "io/base/status.h"
#include "io/rows/row_format.h"
#include "io/state/state_file.h"
#include "sparse/local_store.h"

namespace millrace::sparse {

// A worker's last push that is in the model, and the resume point that it brought; opaque here.
struct WorkerPosition {
  uint64_t sequence = 0;
  std::string state = {};
};

// What a part says besides its entries.
struct CheckpointInfo {
  uint64_t shard = 0;
  uint64_t shards = 1;
  // The run, which must be the same when it is resumed:
  uint64_t num_features = 0;  // of the whole model
  bool intercept = true;
  FactorShape factors = {};
  UpdateOptions update = {};
  std::string data = {};  // which rows come next: words "name=value"
  // Its progress:
  uint64_t steps = 0;
  uint64_t examples = 0;
  double loss = 0;  // summed over the examples, each before its step
  double weight = 0;
  std::string chief_state = {};  // of worker 0; opaque here
  std::vector<WorkerPosition> workers = {};
  // How the training data is written, for readers of the checkpoint as a model; none: unknown.
  std::optional<io::RowFormat> input = {};
};

// Begins the part; the caller finishes it (FolderClaim::CommitPart). `key_of` maps the store's keys
// to those of the whole model and keeps their order. `now_and_then` may be empty.
Result<io::StateWriter> WritePart(const std::string& path, const CheckpointInfo& info,
                                  const LocalStore& store,
                                  const std::function<uint64_t(uint64_t key)>& key_of,
                                  const std::function<void()>& now_and_then = nullptr);

// The checkpoint `id` in a run's folder of checkpoints.
struct CheckpointParts {
  std::string checkpoints;
  uint64_t id = 0;
  uint64_t shards = 1;
  std::optional<uint64_t> only_shard = {};  // read this part alone,
  std::string part_folder = {};             // which is here

  std::string Path(uint64_t shard) const;
};

// kInvalid, with both values, if `theirs` is another run than `ours`.
Status CheckSameRun(const CheckpointInfo& ours, const CheckpointInfo& theirs);

// kInvalid if a run like `ours` cannot continue from the model of `theirs`: its kind and its rule
// must be the same, its num_features at least as large, and the scales and centers of values those
// of `theirs`, which has none as long as all values are ones.
Status CheckContinues(const CheckpointInfo& ours, const CheckpointInfo& theirs);

// The info of one part. A file that is no part of a sparse checkpoint is kCorrupt.
Result<CheckpointInfo> ReadPartInfo(const std::string& path);

// Reads the parts; `take` gets all entries. The info is that of the first part, and each worker's
// position the earliest of all parts: a push that only some of them have is repeated. A missing
// part is kNotFound and named. `floats` is the number of floats that an entry must have in addition
// to the scale of normalised values (LocalStore::rule_floats).
using TakeEntry = std::function<Status(uint64_t key, std::span<const float> state)>;
Result<CheckpointInfo> ReadParts(const CheckpointParts& parts, size_t floats,
                                 const std::function<Status(const CheckpointInfo&)>& check,
                                 const TakeEntry& take);

// Reads the model of an earlier run into `store`, which is new: that of a run like `ours`, or one
// of its shards. `local_of` maps a key of the whole model to the store's; none: it is elsewhere.
// Values that were ones may be normalised and centered from now on (UpdateOptions): the model gives
// the same margins as before. Errors are those of CheckContinues and ReadParts.
using LocalKey = std::function<std::optional<uint64_t>(uint64_t key)>;
Result<CheckpointInfo> ReadEarlierRun(const CheckpointParts& parts, const CheckpointInfo& ours,
                                      const LocalKey& local_of, LocalStore& store);

}  // namespace millrace::sparse
