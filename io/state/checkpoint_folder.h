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

std::string CheckpointPath(const std::string& folder, uint64_t steps);

// Newest first; other files are ignored. A missing folder has none.
Result<std::vector<CheckpointFile>> ListCheckpoints(const std::string& folder);

// Removes temporary files of killed processes.
void RemoveTemporaryFiles(const std::string& folder);

// Removes all checkpoints but those of `steps`. Errors are ignored: the next call tries again.
void KeepCheckpoints(const std::string& folder, std::span<const uint64_t> steps);

// Keeps the checkpoint of `steps` and the `keep` newest ones before it; removes all others. Later
// checkpoints belong to a run that was rolled back. Errors are ignored: the next call tries again.
void RemoveOtherCheckpoints(const std::string& folder, uint64_t steps, size_t keep);

}  // namespace millrace::io
