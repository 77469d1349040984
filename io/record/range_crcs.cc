// SPDX-License-Identifier: Apache-2.0
#include "io/record/range_crcs.h"

#include <algorithm>

#include "io/base/crc32c.h"

namespace millrace::io {
namespace {

// Bytes between two kept CRCs: a range costs at most two such steps, and the CRCs 1/64 of the
// memory of the bytes.
constexpr uint64_t kStep = 256;

}  // namespace

uint32_t RangeCrcs::Crc(uint64_t begin, const char* data, size_t size) {
  if (!Covers(begin)) {
    crcs_.assign(1, 0);
    begin_ = end_ = begin;
    end_crc_ = 0;
  }
  const uint64_t end = begin + size;
  if (end > end_) Extend(data + (end_ - begin), end - end_);
  for (; begin_ + kStep <= begin; begin_ += kStep) crcs_.pop_front();

  const size_t first = (begin - begin_ + kStep - 1) / kStep;
  const size_t last = (end - begin_) / kStep;
  if (first >= last) return Crc32c(data, size);
  // Head, middle and tail; the middle lies between two kept CRCs.
  const size_t head = begin_ + first * kStep - begin;
  const size_t middle = (last - first) * kStep;
  const uint32_t crc = CombineCrc32c(crcs_[first] ^ Crc32c(data, head), crcs_[last], middle);
  return Crc32c(data + head + middle, size - head - middle, crc);
}

// Adds the bytes from end_ on.
void RangeCrcs::Extend(const char* data, size_t size) {
  while (size > 0) {
    const uint64_t next = begin_ + crcs_.size() * kStep;
    const size_t part = std::min<uint64_t>(size, next - end_);
    end_crc_ = Crc32c(data, part, end_crc_);
    end_ += part;
    if (end_ == next) crcs_.push_back(end_crc_);
    data += part;
    size -= part;
  }
}

}  // namespace millrace::io
