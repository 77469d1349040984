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

namespace millrace::io {

struct Manifest {
  uint64_t epoch = 0;   // ascends with every start of the run; 0: the folder has no manifest
  uint64_t owner = 0;   // the process that claimed the folder: a random number
  uint64_t shards = 0;  // that a checkpoint consists of; 0: one process has all of it
  // The newest checkpoint that is complete on all shards, and the one before it.
  std::optional<uint64_t> checkpoint = {};
  std::optional<uint64_t> previous = {};
};

// A missing folder or manifest is a Manifest with epoch 0.
Result<Manifest> ReadManifest(const std::string& folder);

// kInvalid if the run in `folder` has a checkpoint of servers, which one process cannot resume.
Status CheckNoShards(const std::string& folder);

// A process's right to change a folder of checkpoints. It ends when another process claims the
// folder with a later epoch: a process that was suspended, and whose run was resumed elsewhere in
// the meantime, can neither add nor remove anything. Not thread-safe.
class FolderClaim {
 public:
  // Makes the folder if need be. kInvalid if the folder has a manifest of a later epoch, or of the
  // same epoch and another owner; with `take_over` the latter is replaced (the owner is known to
  // have exited). Checkpoint and previous are those of `claim`.
  static Result<FolderClaim> Take(const std::string& folder, const Manifest& claim,
                                  bool take_over = false);

  // Calls `change` while the folder is locked and the claim is valid, and then writes the manifest
  // if `change` altered it. kInvalid, without the call, if the claim has ended.
  Status Change(const std::function<Status(Manifest&)>& change);
  const Manifest& manifest() const { return manifest_; }

 private:
  FolderClaim(std::string folder, const Manifest& manifest)
      : folder_(std::move(folder)), manifest_(manifest) {}

  std::string folder_;
  Manifest manifest_;
};

}  // namespace millrace::io
