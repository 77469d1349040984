// SPDX-License-Identifier: Apache-2.0
// Popularity by Zipf's law: rank k of n (from 0) has a share proportional to (k+1)^-exponent.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace millrace::synth {

// A range of ranks with equal probability.
struct ZipfBucket {
  uint64_t first = 0;  // rank
  uint64_t width = 1;
  double share = 0;  // of all ranks of the bucket together; the shares of a list sum to 1
};

// The first kZipfHead ranks have one bucket each. After them a bucket spans an eighth of an octave,
// and the ranks inside it are equally likely: a few hundred buckets cover any n.
inline constexpr uint64_t kZipfHead = 256;
std::vector<ZipfBucket> ZipfBuckets(uint64_t n, double exponent);

// Draws an index with given probabilities in constant time: Walker's alias method, with integer
// arithmetic after construction.
class AliasTable {
 public:
  explicit AliasTable(std::span<const double> shares);

  // `random` is uniform over 64 bits.
  uint32_t Pick(uint64_t random) const {
    const auto product = static_cast<__uint128_t>(random) * slots_.size();
    const auto slot = static_cast<uint32_t>(product >> 64);
    const auto fraction = static_cast<uint64_t>(product);
    // Without a branch, since it would be unpredictable.
    const uint32_t keep = fraction < slots_[slot].threshold ? ~uint32_t{0} : 0;
    return slots_[slot].alias ^ ((slots_[slot].alias ^ slot) & keep);
  }

 private:
  struct Slot {
    uint64_t threshold;  // below this fraction the result is the slot, else its alias
    uint32_t alias;
  };
  std::vector<Slot> slots_;
};

// A seeded bijection of [0, n) that spreads neighbouring ranks over the range.
class Scatter {
 public:
  Scatter(uint64_t n, uint64_t seed);

  uint64_t operator()(uint64_t rank) const {
    uint64_t x = rank;
    do {  // a bijection of the next power of two, repeated until the result is in the range
      x = (x * factor_ + offset_) & mask_;
      x ^= x >> shift_;
      x = (x * kSecondFactor) & mask_;
      x ^= x >> shift_;
    } while (x >= n_);
    return x;
  }

 private:
  static constexpr uint64_t kSecondFactor = 0xd1342543de82ef95u;
  uint64_t n_, mask_, factor_, offset_;
  int shift_;
};

}  // namespace millrace::synth
