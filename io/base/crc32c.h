// SPDX-License-Identifier: Apache-2.0
// CRC-32C (Castagnoli), the checksum of TFRecord, and the masked form in which TFRecord stores it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "io/base/cpu.h"

namespace millrace {

// The CRC of `a` followed by `b` is Crc32c(b, nb, Crc32c(a, na)).
uint32_t Crc32c(const void* data, size_t size, uint32_t crc = 0);
// The CRC of `a` followed by `b` from the CRCs of both, in O(log size_b). The combination is
// linear: given the CRC of `a b` instead of `b`'s, it returns `b`'s.
uint32_t CombineCrc32c(uint32_t crc_a, uint32_t crc_b, uint64_t size_b);

// A CRC over data that contains its own CRC is a weak check, so stored CRCs are rotated and offset.
constexpr uint32_t kCrcMaskDelta = 0xa282ead8u;
constexpr uint32_t MaskCrc(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + kCrcMaskDelta; }
inline uint32_t MaskedCrc32c(const void* data, size_t size) { return MaskCrc(Crc32c(data, size)); }

namespace internal {
// The implementation for one level, for tests and benchmarks; the processor must have that level.
using CrcFunction = uint32_t (*)(const void* data, size_t size, uint32_t crc);
CrcFunction Crc32cFor(CpuLevel level);
}  // namespace internal

}  // namespace millrace
