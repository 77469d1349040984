// SPDX-License-Identifier: Apache-2.0
// Tables of blocks of floats, whose length is known at run time: one block a feature.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <thread>
#include <vector>

#include "io/base/huge_array.h"
#include "sparse/hashed_key_table.h"

namespace millrace::sparse {

// For keys from 0 to num_features - 1, on large pages. Blocks of 16 floats are cache lines.
class DenseIndexBlocks {
 public:
  // A separate thread maps the pages of a large table, see DenseIndexTable.
  DenseIndexBlocks(size_t block_floats, uint64_t num_features)
      : block_floats_(block_floats), floats_(num_features * block_floats) {
    if (floats_.size() < kPopulateFrom) return;
    populating_ = std::jthread([this](const std::stop_token& stop) {
      for (uint64_t at = 0; at < floats_.size() && !stop.stop_requested(); at += kPopulateFloats) {
        floats_.Populate(at, kPopulateFloats);
      }
    });
  }
  DenseIndexBlocks(const DenseIndexBlocks&) = delete;
  DenseIndexBlocks& operator=(const DenseIndexBlocks&) = delete;

  size_t block_floats() const { return block_floats_; }
  void Prefetch(uint64_t) const {}
  float* At(uint64_t key) { return floats_.data() + key * block_floats_; }
  // Null, or a block of zeros, if the feature was never seen.
  const float* Get(uint64_t key) const { return floats_.data() + key * block_floats_; }

 private:
  static constexpr uint64_t kPopulateFrom = 16 << 20;   // floats
  static constexpr uint64_t kPopulateFloats = 2 << 20;  // at a time

  size_t block_floats_;
  HugeArray<float> floats_;
  std::jthread populating_;  // last: stops before the blocks are destroyed
};

// For any key: only features that were asked for with At have a block. Blocks do not move.
class HashedKeyBlocks {
 public:
  explicit HashedKeyBlocks(size_t block_floats)
      : block_floats_(block_floats),
        chunk_bits_(std::bit_width(std::max<size_t>(kChunkFloats / block_floats, 1)) - 1) {}

  size_t block_floats() const { return block_floats_; }
  void Prefetch(uint64_t key) const { numbers_.Prefetch(key); }
  float* At(uint64_t key) {
    uint32_t& number = numbers_.At(key);
    if (number == 0) {
      number = ++size_;
      if ((size_ - 1) >> chunk_bits_ == chunks_.size()) {
        chunks_.emplace_back(block_floats_ << chunk_bits_);
      }
    }
    return Block(number);
  }
  const float* Get(uint64_t key) const {
    const uint32_t number = numbers_.Get(key);
    return number == 0 ? nullptr : const_cast<HashedKeyBlocks*>(this)->Block(number);
  }

 private:
  static constexpr size_t kChunkFloats = 2 << 20;

  float* Block(uint32_t number) {
    const uint32_t at = number - 1;
    const uint32_t in_chunk = at & ((uint32_t{1} << chunk_bits_) - 1);
    return chunks_[at >> chunk_bits_].data() + in_chunk * block_floats_;
  }

  size_t block_floats_;
  int chunk_bits_;
  HashedKeyTable<uint32_t> numbers_;  // of the blocks, from 1 on
  std::vector<HugeArray<float>> chunks_;
  uint32_t size_ = 0;
};

}  // namespace millrace::sparse
