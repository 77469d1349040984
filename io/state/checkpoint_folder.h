// The files of a folder of checkpoints.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/base/status.h"

namespace millrace::io {

struct CheckpointFile {
  uint64_t steps = 0;
  std::string path;
};

std::string CheckpointPath(const std::string& folder, uint64_t steps);

// Newest first; other files are passed over. A folder that is not there has none.
Result<std::vector<CheckpointFile>> ListCheckpoints(const std::string& folder);

// Removes what killed processes left half written.
void RemoveLeftovers(const std::string& folder);

// Removes all checkpoints but that of `steps` and the `keep` newest before it. One beyond it is of
// a history that was given up. A file that cannot be removed stays until the next try.
void RemoveOtherCheckpoints(const std::string& folder, uint64_t steps, size_t keep);

}  // namespace millrace::io
