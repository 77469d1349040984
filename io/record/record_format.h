// SPDX-License-Identifier: Apache-2.0
// The framing of a TFRecord file: a sequence of records and nothing else.
//
//   +----------------+----------------------+---------------+------------------------+
//   | length: u64 LE | masked CRC of length | length bytes  | masked CRC of the data |
//   |        8       |           4          |     length    |           4            |
//   +----------------+----------------------+---------------+------------------------+
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "io/base/crc32c.h"

namespace millrace::io {

constexpr size_t kRecordHeaderBytes = 12;
constexpr size_t kRecordFooterBytes = 4;
// A header that claims more is corrupt, whatever limit the reader has.
constexpr uint64_t kMaxRecordBytes = uint64_t{1} << 31;

inline uint32_t LoadU32(const char* p) {
  uint32_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
inline uint64_t LoadU64(const char* p) {
  uint64_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
inline void StoreU32(char* p, uint32_t v) { std::memcpy(p, &v, sizeof v); }
inline void StoreU64(char* p, uint64_t v) { std::memcpy(p, &v, sizeof v); }

inline bool HeaderIsValid(const char* header) {
  return LoadU32(header + 8) == MaskedCrc32c(header, 8);
}

}  // namespace millrace::io
