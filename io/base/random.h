// SPDX-License-Identifier: Apache-2.0
// Seeded random numbers that are the same on every machine and with every standard library.
#pragma once

#include <cstdint>

namespace millrace {

// Bijective mixing of 64 bits (the finalizer of SplitMix64): every output bit depends on every
// input bit.
inline uint64_t Mix64(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// A seed for each (seed, stream, substream), so that each purpose and epoch has its own numbers.
inline uint64_t DeriveSeed(uint64_t seed, uint64_t stream, uint64_t substream = 0) {
  constexpr uint64_t kGolden = 0x9e3779b97f4a7c15u;
  return Mix64(Mix64(Mix64(seed + kGolden) ^ (stream * kGolden + 1)) ^ (substream * kGolden + 2));
}

// xoshiro256**: 0.4 ns a number, period 2^256-1.
class Random {
 public:
  explicit Random(uint64_t seed) {
    for (uint64_t& word : state_) word = Mix64(seed += 0x9e3779b97f4a7c15u);
  }

  uint64_t Next() {
    const uint64_t result = Rotl(state_[1] * 5, 7) * 9;
    const uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = Rotl(state_[3], 45);
    return result;
  }

  // Uniform in [0, bound); bound > 0. The bias of the multiply-shift is below bound / 2^64.
  uint64_t Below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<__uint128_t>(Next()) * bound) >> 64);
  }

  // Uniform in [0, 1), 53 bits.
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

 private:
  static uint64_t Rotl(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
  uint64_t state_[4];
};

}  // namespace millrace
