// SPDX-License-Identifier: Apache-2.0
// The files of a folder of checkpoints.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/base/status.h"

namespace millrace::io {

struct CheckpointFile {
  uint64_t steps = 0;
  std::string path;
};

// Creates `path` with its parents. An error if it is not a folder itself: a symbolic link to a
// folder is not accepted, because runs remove files of the folders that they own.
Status MakeRealFolder(const std::string& path);

std::string CheckpointPath(const std::string& folder, uint64_t steps);
// The folder of one shard's parts, in that of all checkpoints of a run.
std::string PartFolder(const std::string& checkpoints, uint64_t shard);

// Newest first. Only regular files (or links to them) with the name of a checkpoint count. A
// missing folder has none.
Result<std::vector<CheckpointFile>> ListCheckpoints(const std::string& folder);

// Whether there is a checkpoint or a part of one in the folder of a run's checkpoints.
bool HasCheckpoints(const std::string& checkpoints);

// The following calls remove only regular files, and nothing if `folder` is a symbolic link. Errors
// are ignored: the next call tries again.

// Removes temporary files of checkpoints and of the manifest. They belong to killed processes if
// the caller owns the folder (FolderClaim).
void RemoveTemporaryFiles(const std::string& folder);

// Removes all checkpoints but those of `steps`. Errors are ignored: the next call tries again.
void KeepCheckpoints(const std::string& folder, std::span<const uint64_t> steps);

// Keeps the checkpoint of `steps` and the `keep` newest ones before it; removes all others. Later
// checkpoints belong to a run that was rolled back.
void RemoveOtherCheckpoints(const std::string& folder, uint64_t steps, size_t keep);

}  // namespace millrace::io
