// SPDX-License-Identifier: Apache-2.0
// Hashes of bytes that never change: keys in files depend on them.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "io/base/random.h"

namespace millrace::io {

// Up to eight bytes as a little-endian word, without a call of memcpy.
inline uint64_t LoadWord(const char* bytes, size_t size) {
  const auto byte = [&](size_t i) { return uint64_t{static_cast<uint8_t>(bytes[i])}; };
  uint64_t word = 0;
  if (size >= sizeof word) {
    std::memcpy(&word, bytes, sizeof word);
  } else if (size >= 4) {
    uint32_t low = 0, high = 0;  // they may overlap
    std::memcpy(&low, bytes, 4);
    std::memcpy(&high, bytes + size - 4, 4);
    word = low | uint64_t{high} << (8 * (size - 4));
  } else if (size > 0) {
    word = byte(0) | byte(size / 2) << (8 * (size / 2)) | byte(size - 1) << (8 * (size - 1));
  }
  return word;
}

constexpr uint64_t kHashGolden = 0x9e3779b97f4a7c15u;

// The state before the first step of a text of `size` bytes.
inline uint64_t HashStart(size_t size, uint64_t seed) {
  return Mix64(seed + kHashGolden * (size + 1));
}
inline uint64_t HashStep(uint64_t hash, uint64_t word) {
  return Mix64((hash ^ word) + kHashGolden);
}
inline uint64_t HashFrom(uint64_t start, std::string_view text) {
  uint64_t hash = start;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (; end - at > 8; at += 8) hash = HashStep(hash, LoadWord(at, 8));
  return at == end ? hash : HashStep(hash, LoadWord(at, static_cast<size_t>(end - at)));
}

// Passes eight bytes per step through the bijective Mix64. The length is mixed in first, so that
// the zero padding of the last step makes no two texts equal. Not secure against adversaries.
inline uint64_t HashString(std::string_view text, uint64_t seed = 0) {
  return HashFrom(HashStart(text.size(), seed), text);
}

// MurmurHash3_x86_32 of Austin Appleby's public definition, which VW uses for names. Four bytes a
// step, little-endian; the last one to three bytes are a step without the rotation of the hash.
inline uint32_t Murmur3(std::string_view text, uint32_t seed) {
  constexpr uint32_t kFirst = 0xcc9e2d51u, kSecond = 0x1b873593u;
  const auto scramble = [](uint32_t word) { return std::rotl(word * kFirst, 15) * kSecond; };
  const auto length = static_cast<uint32_t>(text.size());
  uint32_t hash = seed;
  for (; text.size() >= 4; text.remove_prefix(4)) {
    uint32_t word = 0;
    std::memcpy(&word, text.data(), sizeof word);
    hash = std::rotl(hash ^ scramble(word), 13) * 5 + 0xe6546b64u;
  }
  uint32_t rest = 0;
  if (!text.empty()) std::memcpy(&rest, text.data(), text.size());
  hash ^= scramble(rest) ^ length;
  hash = (hash ^ (hash >> 16)) * 0x85ebca6bu;
  hash = (hash ^ (hash >> 13)) * 0xc2b2ae35u;
  return hash ^ (hash >> 16);
}

// The lowest `bits` bits of `key`; 0 bits stands for all 64.
inline uint64_t MaskKey(uint64_t key, int bits) {
  return bits == 0 ? key : key & (~uint64_t{0} >> (64 - bits));
}

}  // namespace millrace::io
