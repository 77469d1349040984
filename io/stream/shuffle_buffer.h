// A seeded shuffle of a stream through a buffer, as a pure function of the seed: nothing depends on
// timing.
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
  // How many records it wants now; 0: draw.
  size_t Wanted() const { return filling_ && !ended_ ? capacity_ - refs_.size() : 0; }
  void Add(const RecordRef& ref) {
    refs_.push_back(ref);
    live_bytes_ += ref.size;
    if (refs_.size() == capacity_) filling_ = false;
  }
  // No more records will come in this stream.
  void End() { ended_ = true; }

  bool CanDraw() const { return !refs_.empty() && (ended_ || !filling_); }
  bool Drained() const { return ended_ && refs_.empty(); }
  RecordRef Draw() {
    const size_t at = refs_.size() > 1 ? random_.Below(refs_.size()) : 0;
    const RecordRef drawn = refs_[at];
    refs_[at] = refs_.back();
    refs_.pop_back();
    live_bytes_ -= drawn.size;
    if (refs_.size() <= min_) filling_ = true;
    return drawn;
  }

  // Records die at random, so a block may be held for the sake of a few. Copies the records of
  // sparse blocks together when the pool holds far more memory than the buffer needs.
  void Compact(BlockPool& pool);

  size_t size() const { return refs_.size(); }
  size_t capacity() const { return capacity_; }

 private:
  static void Gather(BlockPool& pool, const std::vector<RecordRef*>& moving, uint64_t bytes);

  size_t capacity_;
  size_t min_;
  Random random_{0};
  std::vector<RecordRef> refs_;
  uint64_t live_bytes_ = 0;
  uint64_t held_after_ = 0;  // by the pool, after the last gathering
  bool filling_ = true;
  bool ended_ = false;
};

}  // namespace millrace::io
