// SPDX-License-Identifier: Apache-2.0
#include "ps/wire/key_codec.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "io/base/random.h"
#include "io/example/varint_list.h"

#if defined(__x86_64__)
#endif

namespace millrace::ps {
namespace {

char* PutVarint(char* out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) *out++ = static_cast<char>(value | 0x80);
  *out++ = static_cast<char>(value);
  return out;
}

char* PutKeysPlain(std::span<const uint64_t> keys, uint64_t last, char* out) {
  for (const uint64_t key : keys) {
    out = PutVarint(out, key - last);
    last = key;
  }
  return out;
}

bool SumStepsPlain(std::span<const uint32_t> steps, uint64_t* keys) {
  bool ascending = true;
  uint64_t key = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    ascending &= i == 0 || steps[i] != 0;
    keys[i] = key += steps[i];
  }
  return ascending;
}

#if defined(__x86_64__)

#define MILLRACE_AVX512 \
  __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi,bmi2")))

// A mask of eight lanes. g++ 12 warns about the undefined value in intrinsics without a mask.
constexpr __mmask8 kAll = 0xff;

// Sixteen keys a round. Each difference, below 2^28, is spread over the four bytes of its lane,
// seven bits a byte; the bytes that it needs are marked, all but its last get the top bit, and the
// marked ones are squeezed together. A round with a larger difference is written key by key.
MILLRACE_AVX512 char* PutKeysAvx512(std::span<const uint64_t> keys, uint64_t last, char* out) {
  constexpr uint64_t kFirstBytes = 0x1111111111111111;
  const __m512i shifts = _mm512_set1_epi64(0x352e2720150e0700);  // 53 46 39 32 21 14 7 0
  const __m512i seven = _mm512_set1_epi8(0x7f);
  const __m512i top = _mm512_set1_epi8(static_cast<char>(0x80));
  const __m512i too_large = _mm512_set1_epi64(1 << 28);
  __m512i before = _mm512_set1_epi64(static_cast<int64_t>(last));
  size_t i = 0;
  for (; i + 16 <= keys.size(); i += 16) {
    const __m512i low = _mm512_loadu_si512(keys.data() + i);
    const __m512i high = _mm512_loadu_si512(keys.data() + i + 8);
    const __m512i low_steps =
        _mm512_sub_epi64(low, _mm512_maskz_alignr_epi64(kAll, low, before, 7));
    const __m512i high_steps =
        _mm512_sub_epi64(high, _mm512_maskz_alignr_epi64(kAll, high, low, 7));
    const __mmask8 large = _mm512_cmpge_epu64_mask(low_steps, too_large) |
                           _mm512_cmpge_epu64_mask(high_steps, too_large);
    if (large != 0) {
      out = PutKeysPlain(keys.subspan(i, 16), i == 0 ? last : keys[i - 1], out);
      before = high;
      continue;
    }
    before = high;
    const __m512i steps = _mm512_maskz_inserti64x4(
        kAll, _mm512_castsi256_si512(_mm512_maskz_cvtepi64_epi32(kAll, low_steps)),
        _mm512_maskz_cvtepi64_epi32(kAll, high_steps), 1);
    const uint64_t two = _mm512_cmpge_epu32_mask(steps, _mm512_set1_epi32(1 << 7));
    const uint64_t three = _mm512_cmpge_epu32_mask(steps, _mm512_set1_epi32(1 << 14));
    const uint64_t four = _mm512_cmpge_epu32_mask(steps, _mm512_set1_epi32(1 << 21));
    const uint64_t used = kFirstBytes | _pdep_u64(two, kFirstBytes << 1) |
                          _pdep_u64(three, kFirstBytes << 2) | _pdep_u64(four, kFirstBytes << 3);
    const uint64_t more = (used & ~kFirstBytes) >> 1;
    const __m512i groups =
        _mm512_and_si512(_mm512_maskz_multishift_epi64_epi8(~uint64_t{0}, shifts, steps), seven);
    const __m512i bytes = _mm512_or_si512(groups, _mm512_maskz_mov_epi8(more, top));
    _mm512_storeu_si512(out, _mm512_maskz_compress_epi8(used, bytes));
    out += __builtin_popcountll(used);
  }
  return PutKeysPlain(keys.subspan(i), i == 0 ? last : keys[i - 1], out);
}

// Eight sums a round: each lane gets those before it in three doublings, then the sum so far.
MILLRACE_AVX512 bool SumStepsAvx512(std::span<const uint32_t> steps, uint64_t* keys) {
  const __m512i zero = _mm512_setzero_si512();
  const __m512i all_last = _mm512_set1_epi64(7);
  __m512i sum = zero;
  __mmask8 standstill = 0;
  size_t i = 0;
  for (; i + 8 <= steps.size(); i += 8) {
    const __m256i narrow = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(steps.data() + i));
    __mmask8 zeros = _mm256_cmpeq_epi32_mask(narrow, _mm256_setzero_si256());
    if (i == 0) zeros &= 0xfe;
    standstill |= zeros;
    __m512i lanes = _mm512_maskz_cvtepu32_epi64(kAll, narrow);
    lanes = _mm512_add_epi64(lanes, _mm512_maskz_alignr_epi64(kAll, lanes, zero, 7));
    lanes = _mm512_add_epi64(lanes, _mm512_maskz_alignr_epi64(kAll, lanes, zero, 6));
    lanes = _mm512_add_epi64(lanes, _mm512_maskz_alignr_epi64(kAll, lanes, zero, 4));
    const __m512i sums = _mm512_add_epi64(lanes, sum);
    _mm512_storeu_si512(keys + i, sums);
    // Not from `sums`: the next round then depends on one addition and not on a permutation.
    sum = _mm512_add_epi64(sum, _mm512_maskz_permutexvar_epi64(kAll, all_last, lanes));
  }
  bool ascending = standstill == 0;
  uint64_t key = i == 0 ? 0 : keys[i - 1];
  for (; i < steps.size(); ++i) {
    ascending &= i == 0 || steps[i] != 0;
    keys[i] = key += steps[i];
  }
  return ascending;
}

#endif  // x86-64

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

PutKeysFunction PutKeysFor(CpuLevel level) {
#if defined(__x86_64__)
  if (level >= CpuLevel::kAvx512) return PutKeysAvx512;
#endif
  (void)level;
  return PutKeysPlain;
}

SumStepsFunction SumStepsFor(CpuLevel level) {
#if defined(__x86_64__)
  if (level >= CpuLevel::kAvx512) return SumStepsAvx512;
#endif
  (void)level;
  return SumStepsPlain;
}

void EncodeKeys(std::span<const uint64_t> keys, std::string& out) {
  static const PutKeysFunction put_keys = PutKeysFor(DetectCpuLevel());
  constexpr size_t kBlockKeys = 512;
  std::array<char, kBlockKeys * kMaxKeyBytes + kKeyWriteSlack> block;
  const uint64_t count = keys.size();
  out.assign(block.data(), put_keys({&count, 1}, 0, block.data()));
  uint64_t last = 0;
  while (!keys.empty()) {
    const auto some = keys.first(std::min(kBlockKeys, keys.size()));
    out.append(block.data(), put_keys(some, last, block.data()));
    last = some.back();
    keys = keys.subspan(some.size());
  }
}

Status KeyDecoder::Decode(std::string_view bytes, uint64_t limit, PodVector<uint64_t>& keys) {
  const std::optional<uint64_t> count = TakeCount(bytes);
  if (!count) return Corrupt("key list: expected a count, found none");
  if (*count > bytes.size()) return CountError(*count, bytes.size());
  padded_.Resize(bytes.size() + io::kVarintReadSlack);
  if (!bytes.empty()) std::memcpy(padded_.data(), bytes.data(), bytes.size());
  std::memset(padded_.data() + bytes.size(), 0, io::kVarintReadSlack);
  const std::string_view list(padded_.data(), bytes.size());
  narrow_.resize(list.size() + io::kVarintWriteSlack);
  keys.resize(*count);
  bool ascending = true;
  static const io::Varints32Function decode32 = io::DecodeVarints32For(DetectCpuLevel());
  if (const auto narrow = decode32(list, narrow_.data())) {
    if (narrow->count != *count) return CountError(*count, narrow->count);
    static const SumStepsFunction sum_steps = SumStepsFor(DetectCpuLevel());
    ascending = sum_steps({narrow_.data(), *count}, keys.data());
  } else {
    wide_.resize(list.size());
    const std::optional<size_t> wide = io::DecodeVarints64(list, wide_.data());
    if (!wide) return Corrupt("key list: expected varints, found a cut or too long one");
    if (*wide != *count) return CountError(*count, *wide);
    uint64_t key = 0;
    for (size_t i = 0; i < *count; ++i) {
      const uint64_t next = key + wide_[i];
      ascending &= i == 0 || next > key;  // false for a difference of 0 and for an overflow
      keys[i] = key = next;
    }
  }
  if (!ascending) return Corrupt("key list: expected ascending keys");
  if (limit > 0 && !keys.empty() && keys.back() >= limit) {
    return Corrupt("key list: expected keys below " + std::to_string(limit) + ", found " +
                   std::to_string(keys.back()));
  }
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
