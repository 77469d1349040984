// SPDX-License-Identifier: Apache-2.0
// Blocks of floats, whose length is known at run time: one block a feature.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <future>
#include <vector>

#include "io/base/huge_array.h"
#include "sparse/hashed_key_table.h"

namespace millrace::sparse {

// Blocks by number, in chunks on large pages. They do not move. Block 0 stays all zero: it stands
// for features that have none. Blocks of 16 floats are cache lines. From the second chunk on,
// another thread maps and zeroes the pages of the next one while blocks of this one are given out:
// with many new features in a batch that takes as long as the training itself.
class NumberedBlocks {
 public:
  explicit NumberedBlocks(size_t block_floats)
      : block_floats_(block_floats),
        chunk_bits_(std::bit_width(std::max<size_t>(kChunkFloats / block_floats, 1)) - 1) {
    Add();
  }

  size_t block_floats() const { return block_floats_; }
  // The number of a new block of zeros: 1, 2, ...
  uint32_t Add() {
    if (size_ >> chunk_bits_ == chunks_.size()) AddChunk();
    return size_++;
  }
  float* At(uint32_t number) {
    const size_t in_chunk = number & ((uint32_t{1} << chunk_bits_) - 1);
    return chunks_[number >> chunk_bits_].data() + in_chunk * block_floats_;
  }
  const float* At(uint32_t number) const { return const_cast<NumberedBlocks*>(this)->At(number); }

 private:
  static constexpr size_t kChunkFloats = 8 << 20;

  void AddChunk() {
    const size_t floats = block_floats_ << chunk_bits_;
    if (chunks_.empty()) {
      chunks_.emplace_back(floats);
      return;
    }
    chunks_.push_back(next_.valid() ? next_.get() : HugeArray<float>(floats));
    next_ = std::async(std::launch::async, [floats] {
      HugeArray<float> chunk(floats);
      chunk.Populate(0, floats);
      return chunk;
    });
  }

  size_t block_floats_;
  int chunk_bits_;
  std::vector<HugeArray<float>> chunks_;
  std::future<HugeArray<float>> next_;
  uint32_t size_ = 0;
};

// Blocks by any key: only keys that were asked for with At have one.
class HashedKeyBlocks {
 public:
  explicit HashedKeyBlocks(size_t block_floats) : blocks_(block_floats) {}

  void Prefetch(uint64_t key) const { numbers_.Prefetch(key); }
  float* At(uint64_t key) {
    uint32_t& number = numbers_.At(key);
    if (number == 0) number = blocks_.Add();
    return blocks_.At(number);
  }
  const float* Get(uint64_t key) const {
    const uint32_t number = numbers_.Get(key);
    return number == 0 ? nullptr : blocks_.At(number);
  }

 private:
  HashedKeyTable<uint32_t> numbers_;
  NumberedBlocks blocks_;
};

}  // namespace millrace::sparse
