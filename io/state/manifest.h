// SPDX-License-Identifier: Apache-2.0
// FOLDER/manifest: which run owns a folder of checkpoints, and which checkpoint a resumed run
// takes. It is a state file without entries, replaced as a whole.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "io/base/status.h"
#include "io/state/state_file.h"

namespace millrace::io {

struct Manifest {
  uint64_t epoch = 0;  // ascends with every start of the run; 0: the folder has no manifest
  uint64_t owner = 0;  // the process that claimed the folder: a random number
  // The newest checkpoint that is complete on all shards, and the one before it, each with the
  // number of its parts: 1 if one process wrote it.
  std::optional<uint64_t> checkpoint = {};
  uint64_t shards = 0;
  std::optional<uint64_t> previous = {};
  uint64_t previous_shards = 0;
};

// A missing folder or manifest is a Manifest with epoch 0.
Result<Manifest> ReadManifest(const std::string& folder);

// The same for a run that is resumed: progress that cannot be used is kInvalid, never taken for
// none. That is a damaged manifest, and checkpoints without a manifest.
Result<Manifest> ReadManifestToResume(const std::string& folder);

// A process's right to change a folder of checkpoints. It ends when another process claims the
// folder with a later epoch: a process that was suspended, and whose run was resumed elsewhere in
// the meantime, can neither add nor remove anything. Not thread-safe.
class FolderClaim {
 public:
  // Makes the folder if need be. kInvalid if the folder has a manifest of a later epoch, or of the
  // same epoch and another owner; with `take_over` the latter is replaced (the owner is known to
  // have exited). Checkpoint and previous are those of `claim`. Removes the temporary files of
  // killed processes.
  static Result<FolderClaim> Take(const std::string& folder, const Manifest& claim,
                                  bool take_over = false);

  // Calls `change` while the folder is locked and the claim is valid, and then writes the manifest
  // if `change` altered it. kInvalid, without the call, if the claim has ended.
  Status Change(const std::function<Status(Manifest&)>& change);
  // Finishes a part of checkpoint `id` in the folder. It and the part of `committed`, a checkpoint
  // that is complete on all shards, stay; all others are removed.
  Status CommitPart(StateWriter& part, uint64_t id, std::optional<uint64_t> committed);
  // For the folder of all shards: all parts of checkpoint `id` are written. Removes parts of older
  // checkpoints, and temporary files, in the folders of shards that neither of the two last
  // checkpoints has.
  Status CommitCheckpoint(uint64_t id, uint64_t shards);
  const Manifest& manifest() const { return manifest_; }

 private:
  FolderClaim(std::string folder, const Manifest& manifest)
      : folder_(std::move(folder)), manifest_(manifest) {}

  std::string folder_;
  Manifest manifest_;
};

}  // namespace millrace::io
