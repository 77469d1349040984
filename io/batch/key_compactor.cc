// SPDX-License-Identifier: Apache-2.0
#include "io/batch/key_compactor.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "io/base/random.h"
#include "io/base/status.h"

namespace millrace::io {
namespace {

// Far enough ahead to hide a miss of the second-level cache.
constexpr size_t kPrefetchAhead = 64;

// Replaces counts by the position of each digit's first item.
template <size_t kDigits>
void SumUp(std::array<uint32_t, kDigits>& counts) {
  uint32_t sum = 0;
  for (uint32_t& count : counts) sum += std::exchange(count, sum);
}

// Sorts numbers below 2^(2 kBits) by their low and then by their high digit; `other` is scratch.
template <int kBits>
void SortByTwoDigits(uint32_t* items, uint32_t* other, size_t count) {
  constexpr uint32_t kMask = (1u << kBits) - 1;
  std::array<uint32_t, kMask + 1> low{}, high{};
  for (size_t i = 0; i < count; ++i) {
    ++low[items[i] & kMask];
    ++high[items[i] >> kBits];
  }
  SumUp(low);
  SumUp(high);
  for (size_t i = 0; i < count; ++i) other[low[items[i] & kMask]++] = items[i];
  for (size_t i = 0; i < count; ++i) items[high[other[i] >> kBits]++] = other[i];
}

// The bitmap design. One pass sets a bit for every key and lists the words touched for the first
// time; the list is sorted (a sixty-fourth of the key range, so two short radix passes); the words
// in order give the sorted unique keys and each word's first position; a last pass finds every
// key's position by counting the bits below its own.
template <typename Word>
[[gnu::always_inline]] inline void CompactByBitmap(std::span<uint32_t> cols,
                                                   PodVector<uint64_t>& keys,
                                                   HugeArray<Word>& all_words,
                                                   PodVector<uint32_t>& list_a,
                                                   PodVector<uint32_t>& list_b) {
  const size_t count = cols.size();
  Word* words = all_words.data();
  list_a.resize(count + 1);
  list_b.resize(count + 1);
  uint32_t* touched = list_a.data();
  uint32_t* other = list_b.data();
  size_t num_touched = 0;
  for (size_t i = 0; i < count; ++i) {
    __builtin_prefetch(&words[cols[std::min(i + kPrefetchAhead, count - 1)] / 64], 1);
    const uint32_t key = cols[i];
    const uint64_t before = words[key / 64].present;
    words[key / 64].present = before | uint64_t{1} << (key % 64);
    touched[num_touched] = key / 64;
    num_touched += before == 0;
  }
  if (all_words.size() <= size_t{1} << 20) {
    SortByTwoDigits<10>(touched, other, num_touched);
  } else {
    SortByTwoDigits<11>(touched, other, num_touched);
  }
  keys.resize(count + 2);
  uint32_t position = 0;
  for (size_t i = 0; i < num_touched; ++i) {
    Word& word = words[touched[i]];
    const uint64_t base = uint64_t{64} * touched[i];
    word.position = position;
    // Most words have one or two keys: these are written without a branch.
    uint64_t left = word.present;
    const auto total = static_cast<uint32_t>(std::popcount(left));
    keys[position] = base + static_cast<uint64_t>(std::countr_zero(left));
    left &= left - 1;
    keys[position + 1] = base + static_cast<uint64_t>(std::countr_zero(left));
    left &= left - 1;
    for (uint32_t at = position + 2; left != 0; left &= left - 1) {
      keys[at++] = base + static_cast<uint64_t>(std::countr_zero(left));
    }
    position += total;
  }
  for (uint32_t& col : cols) {
    const Word& word = words[col / 64];
    const uint64_t below = word.present & ((uint64_t{1} << (col % 64)) - 1);
    col = word.position + static_cast<uint32_t>(std::popcount(below));
  }
  for (size_t i = 0; i < num_touched; ++i) words[touched[i]].present = 0;
  keys.resize(position);
}

#if defined(__x86_64__)
template <typename... Args>
__attribute__((target("popcnt,bmi"))) void CompactFast(Args&... args) {
  CompactByBitmap(args...);
}
#endif

}  // namespace

KeyCompactor::KeyCompactor(uint64_t num_features, CpuLevel level)
    : fast_bits_(level >= CpuLevel::kAvx2) {
  if (num_features > 0 && num_features <= kMaxBitmapFeatures)
    words_ = HugeArray<Word>(num_features / 64 + 1);
}

void KeyCompactor::Compact(std::span<uint32_t> cols, PodVector<uint64_t>& keys) {
  if (cols.empty()) {
    keys.clear();
    return;
  }
  if (words_.empty()) {
    Deduplicate<uint32_t>(cols, cols.data());
    SortUnique();
  } else {
#if defined(__x86_64__)
    if (fast_bits_) return CompactFast(cols, keys, words_, words_a_, words_b_);
#endif
    return CompactByBitmap(cols, keys, words_, words_a_, words_b_);
  }
  keys.resize(sorted_.size());
  for (size_t i = 0; i < sorted_.size(); ++i) keys[i] = sorted_[i].key;
  for (uint32_t& col : cols) col = rank_[col];
}

void KeyCompactor::Compact(std::span<const uint64_t> wide_keys, PodVector<uint32_t>& cols,
                           PodVector<uint64_t>& keys) {
  cols.resize(wide_keys.size());
  keys.clear();
  if (wide_keys.empty()) return;
  Deduplicate(wide_keys, cols.data());
  SortUnique();
  keys.resize(sorted_.size());
  for (size_t i = 0; i < sorted_.size(); ++i) keys[i] = sorted_[i].key;
  for (uint32_t& col : cols) col = rank_[col];
}

// Open addressing; a stamp per batch saves clearing the table. Ids number the keys in the order of
// first appearance. `ids` may be the memory of the keys.
template <typename Key>
void KeyCompactor::Deduplicate(std::span<const Key> keys_in, uint32_t* ids) {
  const size_t size = std::bit_ceil(2 * keys_in.size());
  if (slots_.size() < size || ++stamp_ == 0) {
    slots_.assign(std::max(slots_.size(), size), Slot{0, 0, 0});
    stamp_ = 1;
  }
  const size_t mask = slots_.size() - 1;
  unique_.resize(keys_in.size());
  uint32_t count = 0;
  for (size_t i = 0; i < keys_in.size(); ++i) {
    const uint64_t key = keys_in[i];
    size_t at = Mix64(key) & mask;
    while (slots_[at].stamp == stamp_ && slots_[at].key != key) at = (at + 1) & mask;
    if (slots_[at].stamp != stamp_) {
      slots_[at] = {key, stamp_, count};
      unique_[count] = {key, count};
      ++count;
    }
    ids[i] = slots_[at].id;
  }
  unique_.resize(count);
}

// Fills sorted_ with the unique keys in order, and rank_ with the position of each id: one
// least-significant-digit radix pass per digit of the largest key.
void KeyCompactor::SortUnique() {
  constexpr int kBits = 11;
  uint64_t all = 0;
  for (const Unique& u : unique_) all |= u.key;
  sorted_.resize(unique_.size());
  for (int shift = 0; shift < 64 && all >> shift != 0; shift += kBits) {
    const auto digit = [shift](const Unique& u) { return (u.key >> shift) & ((1u << kBits) - 1); };
    std::array<uint32_t, 1 << kBits> starts{};
    for (const Unique& u : unique_) ++starts[digit(u)];
    SumUp(starts);
    for (const Unique& u : unique_) sorted_[starts[digit(u)]++] = u;
    unique_.swap(sorted_);
  }
  unique_.swap(sorted_);
  rank_.resize(sorted_.size());
  for (size_t i = 0; i < sorted_.size(); ++i) rank_[sorted_[i].id] = static_cast<uint32_t>(i);
}

}  // namespace millrace::io
