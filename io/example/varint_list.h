// SPDX-License-Identifier: Apache-2.0
// Decodes packed lists of varints: seven bits per byte, least significant first, the top bit set on
// all but the last byte. The feature indices of an example are stored this way; most take one to
// four bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "io/base/cpu.h"

namespace millrace::io {

// Bytes past the list that may be read, and entries past the result that may be written.
constexpr size_t kVarintReadSlack = 64;
constexpr size_t kVarintWriteSlack = 16;

struct Varints32 {
  size_t count;
  uint32_t max;  // 0 for an empty list
};

// Writes the numbers of `list` to `out`, which has room for list.size() + kVarintWriteSlack
// entries. Returns nothing if a number has more than four bytes (28 bits) or the list ends inside a
// number; DecodeVarints64 distinguishes the two.
using Varints32Function = std::optional<Varints32> (*)(std::string_view list, uint32_t* out);
Varints32Function DecodeVarints32For(CpuLevel level);

// Decodes 64-bit numbers of at most ten bytes each (bits beyond 64 are dropped, as in protobuf).
// Returns the count, or nothing if the list is malformed. `out` has room for list.size() entries.
std::optional<size_t> DecodeVarints64(std::string_view list, uint64_t* out);

}  // namespace millrace::io
