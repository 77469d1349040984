// SPDX-License-Identifier: Apache-2.0
// Designs of key compaction that were compared with io/batch/key_compactor.h: none of them is used
// by Millrace.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace millrace::bench {

// Sorts (key, position) packed into 64 bits by least-significant-digit radix passes; one scan gives
// positions.
class RadixCompactor {
 public:
  RadixCompactor(int key_bits, int passes) : key_bits_(key_bits), passes_(passes) {}
  void Compact(std::span<uint32_t> cols, std::vector<uint64_t>& keys);

 private:
  int key_bits_;
  int passes_;
  std::vector<uint64_t> a_, b_;
  std::vector<uint32_t> starts_;
};

// A bitmap of all features under two summary bitmaps; walking the summaries gives the keys in
// order.
class SummaryBitmapCompactor {
 public:
  explicit SummaryBitmapCompactor(uint64_t num_features);
  void Compact(std::span<uint32_t> cols, std::vector<uint64_t>& keys);

 private:
  struct Word {
    uint64_t present = 0;
    uint64_t position = 0;
  };
  std::vector<Word> words_;
  std::vector<uint64_t> middle_, top_;
};

// std::sort and std::unique, then a binary search a key.
class SortCompactor {
 public:
  void Compact(std::span<uint32_t> cols, std::vector<uint64_t>& keys);
};

}  // namespace millrace::bench
