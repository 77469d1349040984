// SPDX-License-Identifier: Apache-2.0
// Estimates the number of distinct 64-bit keys with an error of about 0.8 %, in 16 KB of memory
// (HyperLogLog).
//
// The upper bits of a key's hash select one of 2^14 registers. The register keeps the longest run
// of leading zeros, plus one, in the other bits. With m registers M_i, the estimate is alpha m^2 /
// sum(2^-M_i); while registers are still empty and the estimate is small, m ln(m / empty) is more
// accurate.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "io/base/random.h"

namespace millrace::records {

class DistinctCounter {
 public:
  void Add(uint64_t key) {
    const uint64_t hash = Mix64(key + 0x9e3779b97f4a7c15u);
    const uint64_t rest = hash << kIndexBits | 1u << (kIndexBits - 1);
    uint8_t& longest = registers_[hash >> (64 - kIndexBits)];
    longest = std::max(longest, static_cast<uint8_t>(std::countl_zero(rest) + 1));
  }

  void Merge(const DistinctCounter& other) {
    for (size_t i = 0; i < kRegisters; ++i) {
      registers_[i] = std::max(registers_[i], other.registers_[i]);
    }
  }

  uint64_t Estimate() const {
    constexpr double m = kRegisters;
    double sum = 0;
    for (const uint8_t longest : registers_) sum += std::ldexp(1.0, -longest);
    const double estimate = 0.7213 / (1 + 1.079 / m) * m * m / sum;
    const auto empty = static_cast<double>(std::count(registers_.begin(), registers_.end(), 0));
    const bool few = empty > 0 && estimate < 2.5 * m;
    return static_cast<uint64_t>(std::llround(few ? m * std::log(m / empty) : estimate));
  }

 private:
  static constexpr int kIndexBits = 14;
  static constexpr size_t kRegisters = size_t{1} << kIndexBits;

  std::array<uint8_t, kRegisters> registers_{};
};

}  // namespace millrace::records
