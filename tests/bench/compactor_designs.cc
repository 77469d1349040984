// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/compactor_designs.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace millrace::bench {

void RadixCompactor::Compact(std::span<uint32_t> cols, std::vector<uint64_t>& keys) {
  const size_t count = cols.size();
  const int bits = (key_bits_ + passes_ - 1) / passes_;
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  a_.resize(count);
  b_.resize(count);
  for (size_t i = 0; i < count; ++i) a_[i] = static_cast<uint64_t>(cols[i]) << 32 | i;
  for (int pass = 0; pass < passes_; ++pass) {
    const int shift = 32 + bits * pass;
    starts_.assign(mask + 1, 0);
    for (const uint64_t item : a_) ++starts_[(item >> shift) & mask];
    uint32_t sum = 0;
    for (uint32_t& start : starts_) sum += std::exchange(start, sum);
    for (const uint64_t item : a_) b_[starts_[(item >> shift) & mask]++] = item;
    a_.swap(b_);
  }
  keys.clear();
  for (const uint64_t item : a_) {
    if (keys.empty() || keys.back() != item >> 32) keys.push_back(item >> 32);
    cols[item & 0xffffffffu] = static_cast<uint32_t>(keys.size() - 1);
  }
}

SummaryBitmapCompactor::SummaryBitmapCompactor(uint64_t num_features)
    : words_(num_features / 64 + 1),
      middle_(words_.size() / 64 + 1),
      top_(middle_.size() / 64 + 1) {}

void SummaryBitmapCompactor::Compact(std::span<uint32_t> cols, std::vector<uint64_t>& keys) {
  for (const uint32_t key : cols) {
    words_[key >> 6].present |= uint64_t{1} << (key & 63);
    middle_[key >> 12] |= uint64_t{1} << (key >> 6 & 63);
    top_[key >> 18] |= uint64_t{1} << (key >> 12 & 63);
  }
  keys.clear();
  const auto each_bit = [](uint64_t bits, size_t base, auto&& visit) {
    for (; bits != 0; bits &= bits - 1) visit(base + static_cast<size_t>(std::countr_zero(bits)));
  };
  for (size_t t = 0; t < top_.size(); ++t) {
    each_bit(std::exchange(top_[t], 0), 64 * t, [&](size_t m) {
      each_bit(std::exchange(middle_[m], 0), 64 * m, [&](size_t w) {
        words_[w].position = keys.size();
        each_bit(words_[w].present, 64 * w, [&](size_t key) { keys.push_back(key); });
      });
    });
  }
  for (uint32_t& col : cols) {
    const Word& word = words_[col >> 6];
    const uint64_t below = word.present & ((uint64_t{1} << (col & 63)) - 1);
    col = static_cast<uint32_t>(word.position) + static_cast<uint32_t>(std::popcount(below));
  }
  for (const uint64_t key : keys) words_[key >> 6].present = 0;
}

void SortCompactor::Compact(std::span<uint32_t> cols, std::vector<uint64_t>& keys) {
  keys.assign(cols.begin(), cols.end());
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  for (uint32_t& col : cols) {
    col = static_cast<uint32_t>(std::lower_bound(keys.begin(), keys.end(), col) - keys.begin());
  }
}

}  // namespace millrace::bench
