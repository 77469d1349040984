// SPDX-License-Identifier: Apache-2.0
// A 64-bit hash of bytes that never changes: keys in files depend on it.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "io/base/random.h"

namespace millrace::io {

// Passes eight bytes per step through the bijective Mix64. The length is mixed in first, so that
// the zero padding of the last step makes no two texts equal. Not secure against adversaries.
inline uint64_t HashString(std::string_view text, uint64_t seed = 0) {
  constexpr uint64_t kGolden = 0x9e3779b97f4a7c15u;
  uint64_t hash = Mix64(seed + kGolden * (text.size() + 1));
  while (!text.empty()) {
    uint64_t word = 0;
    const size_t size = text.size() < sizeof word ? text.size() : sizeof word;
    std::memcpy(&word, text.data(), size);
    hash = Mix64((hash ^ word) + kGolden);
    text.remove_prefix(size);
  }
  return hash;
}

// The lowest `bits` bits of `key`; 0 bits stands for all 64.
inline uint64_t MaskKey(uint64_t key, int bits) {
  return bits == 0 ? key : key & (~uint64_t{0} >> (64 - bits));
}

}  // namespace millrace::io
