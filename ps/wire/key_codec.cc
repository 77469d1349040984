// SPDX-License-Identifier: Apache-2.0
#include "ps/wire/key_codec.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "io/base/random.h"
#include "io/batch/csr_batch.h"
#include "io/example/varint_list.h"

namespace millrace::ps {
namespace {

char* PutVarint(char* out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) *out++ = static_cast<char>(value | 0x80);
  *out++ = static_cast<char>(value);
  return out;
}

// Writes the difference of each key to the one before it (of the first one: to `last`) as varints.
// Returns the end of what was written.
char* PutKeys(std::span<const uint64_t> keys, uint64_t last, char* out) {
  for (const uint64_t key : keys) {
    out = PutVarint(out, key - last);
    last = key;
  }
  return out;
}

// keys[i] = steps[0] + ... + steps[i]. False if a step but the first is 0.
bool SumSteps(std::span<const uint32_t> steps, uint64_t* keys) {
  bool ascending = true;
  uint64_t key = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    ascending &= i == 0 || steps[i] != 0;
    keys[i] = key += steps[i];
  }
  return ascending;
}

// The number of keys at the beginning; removes it.
std::optional<uint64_t> TakeCount(std::string_view& bytes) {
  uint64_t count = 0;
  for (size_t i = 0; i < bytes.size() && i < 5; ++i) {
    const auto byte = static_cast<uint8_t>(bytes[i]);
    count |= uint64_t{byte & 0x7fu} << (7 * i);
    if (byte < 0x80) {
      bytes.remove_prefix(i + 1);
      return count;
    }
  }
  return std::nullopt;
}

Status CountError(uint64_t expected, size_t found) {
  return Corrupt("key list: expected " + std::to_string(expected) + " keys, found " +
                 std::to_string(found));
}

}  // namespace

void EncodeKeys(std::span<const uint64_t> keys, std::string& out) {
  constexpr size_t kBlockKeys = 512, kMaxKeyBytes = 10;
  std::array<char, kBlockKeys * kMaxKeyBytes> block;
  const bool intercept = io::HasIntercept(keys);
  keys = io::FeatureKeys(keys);
  const uint64_t count = 2 * keys.size() + (intercept ? 1 : 0);
  out.assign(block.data(), PutKeys({&count, 1}, 0, block.data()));
  uint64_t last = 0;
  while (!keys.empty()) {
    const auto some = keys.first(std::min(kBlockKeys, keys.size()));
    out.append(block.data(), PutKeys(some, last, block.data()));
    last = some.back();
    keys = keys.subspan(some.size());
  }
}

Status KeyDecoder::Decode(std::string_view bytes, const KeyBounds& bounds,
                          PodVector<uint64_t>& keys) {
  const std::optional<uint64_t> head = TakeCount(bytes);
  if (!head) return Corrupt("key list: expected a count, found none");
  const uint64_t count = *head / 2;
  const bool intercept = *head % 2 == 1;
  if (count > bytes.size()) return CountError(count, bytes.size());
  padded_.Resize(bytes.size() + io::kVarintReadSlack);
  if (!bytes.empty()) std::memcpy(padded_.data(), bytes.data(), bytes.size());
  std::memset(padded_.data() + bytes.size(), 0, io::kVarintReadSlack);
  const std::string_view list(padded_.data(), bytes.size());
  narrow_.resize(list.size() + io::kVarintWriteSlack);
  keys.reserve(count + 1);
  keys.resize(count);
  bool ascending = true;
  static const io::Varints32Function decode32 = io::DecodeVarints32For(DetectCpuLevel());
  if (const auto narrow = decode32(list, narrow_.data())) {
    if (narrow->count != count) return CountError(count, narrow->count);
    ascending = SumSteps({narrow_.data(), count}, keys.data());
  } else {
    wide_.resize(list.size());
    const std::optional<size_t> wide = io::DecodeVarints64(list, wide_.data());
    if (!wide) return Corrupt("key list: expected varints, found a cut or too long one");
    if (*wide != count) return CountError(count, *wide);
    uint64_t key = 0;
    for (size_t i = 0; i < count; ++i) {
      const uint64_t next = key + wide_[i];
      ascending &= i == 0 || next > key;  // false for a difference of 0 and for an overflow
      keys[i] = key = next;
    }
  }
  if (!ascending) return Corrupt("key list: expected ascending keys");
  if (bounds.limit > 0 && !keys.empty() && keys.back() >= bounds.limit) {
    return Corrupt("key list: expected keys below " + std::to_string(bounds.limit) + ", found " +
                   std::to_string(keys.back()));
  }
  if (io::HasIntercept(keys)) return Corrupt("key list: expected features, found the intercept");
  if (intercept && !bounds.intercept) {
    return Corrupt("key list: expected no intercept, which this shard does not have");
  }
  if (intercept) keys.push_back(io::kInterceptKey);
  return {};
}

// Eight sums side by side: a single one would wait for each of its multiplications.
uint64_t ListSignature(std::string_view bytes) {
  constexpr size_t kLanes = 8;
  uint64_t lanes[kLanes];
  for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = Mix64(bytes.size() + 1 + lane);
  uint64_t words[kLanes];
  size_t at = 0;
  const auto add = [&] {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = (lanes[lane] ^ words[lane]) * 0x9e3779b97f4a7c15u;
      lanes[lane] ^= lanes[lane] >> 32;
    }
  };
  for (; at + sizeof words <= bytes.size(); at += sizeof words) {
    std::memcpy(words, bytes.data() + at, sizeof words);
    add();
  }
  std::memset(words, 0, sizeof words);
  if (at < bytes.size()) std::memcpy(words, bytes.data() + at, bytes.size() - at);
  add();
  uint64_t hash = 0;
  for (const uint64_t lane : lanes) hash = Mix64(hash ^ lane);
  return hash | 1;
}

}  // namespace millrace::ps
