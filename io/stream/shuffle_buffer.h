// SPDX-License-Identifier: Apache-2.0
// A seeded shuffle of a stream through a buffer. The order depends on the seed, not on timing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "io/base/random.h"
#include "io/stream/block_pool.h"

namespace millrace::io {

// The buffer is filled to `capacity`; then records are drawn at random until `min_after_dequeue`
// are left; then it is filled again; at the end of the stream it is drawn empty. A capacity of 1 or
// less keeps the stream's order.
class ShuffleBuffer {
 public:
  ShuffleBuffer(size_t capacity, size_t min_after_dequeue)
      : capacity_(capacity > 0 ? capacity : 1), min_(min_after_dequeue) {}

  // Starts a stream (an epoch); the buffer must be empty.
  void Start(uint64_t seed) {
    random_ = Random(seed);
    filling_ = true;
    ended_ = false;
  }
  // The number of records to Add now; 0: Draw.
  size_t Wanted() const { return filling_ && !ended_ ? capacity_ - refs_.size() : 0; }
  void Add(const RecordRef& ref) {
    refs_.push_back(ref);
    live_bytes_ += ref.size;
    if (refs_.size() == capacity_) filling_ = false;
  }
  // The stream has no more records.
  void End() { ended_ = true; }

  bool CanDraw() const { return !refs_.empty() && (ended_ || !filling_); }
  bool Finished() const { return ended_ && refs_.empty(); }
  RecordRef Draw() {
    const size_t at = refs_.size() > 1 ? random_.Below(refs_.size()) : 0;
    const RecordRef drawn = refs_[at];
    refs_[at] = refs_.back();
    refs_.pop_back();
    live_bytes_ -= drawn.size;
    if (refs_.size() <= min_) filling_ = true;
    return drawn;
  }

  // Records are released in random order, so a few records may keep a whole block alive. When the
  // pool holds far more memory than the buffer needs, copies the records of sparse blocks together.
  void Compact(BlockPool& pool);

  size_t size() const { return refs_.size(); }
  uint64_t live_bytes() const { return live_bytes_; }  // of the records
  size_t capacity() const { return capacity_; }

 private:
  static void Gather(BlockPool& pool, const std::vector<RecordRef*>& moving, uint64_t bytes);

  size_t capacity_;
  size_t min_;
  Random random_{0};
  std::vector<RecordRef> refs_;
  uint64_t live_bytes_ = 0;
  uint64_t held_after_ = 0;  // bytes that the pool held after the last Compact
  bool filling_ = true;
  bool ended_ = false;
};

}  // namespace millrace::io
