// The facts about a model that its file holds.
#pragma once

#include <cstdint>
#include <string>

#include "io/base/status.h"
#include "io/state/state_fields.h"

namespace millrace::trainer {

struct ModelInfo {
  uint64_t num_features = 0;  // 0: a hashed-key table, any 64-bit key
  std::string rule;           // "ftrl"
  uint64_t steps = 0;
  uint64_t examples = 0;
  uint64_t weights = 0;  // that are not zero; known once the file was read
};

// "num_features = 100" or "any 64-bit key", for messages.
std::string ShapeText(uint64_t num_features);

// All but `weights`, which are known at the end of a file only.
void AddModelInfo(const ModelInfo& info, io::StateFields& fields);
Result<ModelInfo> ModelInfoFrom(const io::StateFields& fields);

}  // namespace millrace::trainer
