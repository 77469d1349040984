// SPDX-License-Identifier: Apache-2.0
// Weights of a model on the wire, when it is saved or loaded: for each, the key as a varint (the
// difference to the one before it, the first of a piece as it is), then the weight as f32. Keys
// ascend strictly. In a model with factors a byte follows: 0, the feature has none, or 1, they
// follow as f32.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/status.h"

namespace millrace::ps {

struct Entry {
  uint64_t key = 0;
  float weight = 0;
};
using EntryList = std::vector<Entry>;

// How many entries a message has at most, with `width` factors each: a few MB.
inline size_t EntriesPerPiece(size_t width) {
  constexpr size_t kEntries = 64 << 10, kNumbers = 1 << 20;
  return std::min(kEntries, kNumbers / (1 + width));
}

// Appends. `factors`: [entries][width]; all zero: the feature has none.
void EncodeEntries(std::span<const Entry> entries, std::string& out,
                   std::span<const float> factors = {});
// Replaces `entries` and `factors`.
Status DecodeEntries(std::string_view bytes, EntryList& entries, size_t width,
                     std::vector<float>& factors);
// Of a model without factors.
Status DecodeEntries(std::string_view bytes, EntryList& entries);

}  // namespace millrace::ps
