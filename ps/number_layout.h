// SPDX-License-Identifier: Apache-2.0
// The numbers that an exchange carries for a list of keys: arrays with a number for each key, one
// behind the other, then a block of factors for each feature. The intercept has none.
//
//   [per_key][keys], [features][per_feature]
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "io/base/status.h"
#include "io/batch/csr_batch.h"

namespace millrace::ps {

struct NumberLayout {
  // Of a list with blocks, for one server: so many bytes fit into a message.
  static constexpr size_t kMaxNumbers = 48 << 20;

  size_t per_key = 1;
  size_t per_feature = 0;

  size_t Count(size_t keys, size_t features) const {
    return per_key * keys + per_feature * features;
  }
  size_t Count(std::span<const uint64_t> keys) const {
    return Count(keys.size(), io::FeatureKeys(keys).size());
  }
  // Before memory is taken for them.
  Status Check(size_t keys) const {
    if (per_feature == 0 || Count(keys, keys) <= kMaxNumbers) return {};
    return Invalid("a batch has " + std::to_string(keys) + " features on one server, of " +
                   std::to_string(per_key + per_feature) + " numbers each: expected at most " +
                   std::to_string(kMaxNumbers) +
                   " numbers; smaller batches or more servers have fewer");
  }
};

}  // namespace millrace::ps
