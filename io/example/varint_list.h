// Decodes packed lists of varints: seven bits a byte, least significant first, the top bit set on
// all but the last byte. The feature indices of an example are such a list, and most of them are
// one to four bytes long.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "io/base/cpu.h"

namespace millrace::io {

// Bytes behind the list that may be read, and entries behind the result that may be written.
constexpr size_t kVarintReadSlack = 64;
constexpr size_t kVarintWriteSlack = 16;

struct Varints32 {
  size_t count;
  uint32_t max;  // 0 for an empty list
};

// Writes the numbers of `list` to `out`, which has room for list.size() + kVarintWriteSlack
// entries. Nothing when a number has more than four bytes (28 bits), or the list ends inside a
// number: DecodeVarints64 tells which.
using Varints32Function = std::optional<Varints32> (*)(std::string_view list, uint32_t* out);
Varints32Function DecodeVarints32For(CpuLevel level);

// The same for any 64-bit numbers, of at most ten bytes each (bits beyond 64 are dropped, as
// protobuf does). The count, or nothing if the list is malformed. `out` has room for list.size()
// entries.
std::optional<size_t> DecodeVarints64(std::string_view list, uint64_t* out);

}  // namespace millrace::io
