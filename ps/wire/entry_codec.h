// SPDX-License-Identifier: Apache-2.0
// Weights of a model on the wire, when it is saved or loaded: for each, the key as a varint (the
// difference to the one before it, the first of a piece as it is), then the weight as f32. Keys
// ascend strictly.
#pragma once

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

// Appends.
void EncodeEntries(std::span<const Entry> entries, std::string& out);
// Replaces `entries`.
Status DecodeEntries(std::string_view bytes, EntryList& entries);

}  // namespace millrace::ps
