// A model that can be saved, wherever its weights are.
#pragma once

#include <cstdint>
#include <functional>

#include "io/base/status.h"
#include "sparse/local_store.h"
#include "trainer/model/model_info.h"

namespace millrace::trainer {

struct ModelSource {
  ModelInfo info;  // without the number of weights
  // Calls visit(key, weight) for each weight that is not zero, in the order of keys. May be called
  // again.
  using Visit = std::function<void(uint64_t key, float weight)>;
  std::function<Status(const Visit& visit)> for_each;
};

// `store` outlives the source. `examples` is how many the model has learnt from.
ModelSource SourceOf(const sparse::LocalStore& store, uint64_t examples);

}  // namespace millrace::trainer
