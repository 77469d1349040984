// SPDX-License-Identifier: Apache-2.0
// CRC-32Cs of overlapping ranges of one stream. Bytes that an earlier range covered cost O(log n),
// so that the search through a corrupt file whose headers claim long records takes linear time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

namespace millrace::io {

// Not thread-safe.
class RangeCrcs {
 public:
  // The CRC of the stream's bytes [begin, begin + size), which are at `data`. `begin` must not
  // decrease from call to call.
  uint32_t Crc(uint64_t begin, const char* data, size_t size);

  // Whether a range that begins at `begin` overlaps an earlier one.
  bool Covers(uint64_t begin) const { return begin < end_; }

 private:
  void Extend(const char* data, size_t size);

  // crcs_[i] is the CRC of [first_, begin_ + i * kStep) for a `first_` that cancels out and so is
  // not kept; end_crc_ that of [first_, end_).
  std::deque<uint32_t> crcs_;
  uint64_t begin_ = 0;
  uint64_t end_ = 0;
  uint32_t end_crc_ = 0;
};

}  // namespace millrace::io
