// SPDX-License-Identifier: Apache-2.0
#include "io/example/varint_list.h"

#include <algorithm>
#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace millrace::io {
namespace {

std::optional<Varints32> DecodePlain(std::string_view list, uint32_t* out) {
  const auto* p = reinterpret_cast<const unsigned char*>(list.data());
  const auto* end = p + list.size();
  uint32_t max = 0;
  size_t count = 0;
  while (p < end) {
    uint32_t value = 0;
    uint32_t byte = 0x80;
    for (int shift = 0; shift < 28 && p < end; shift += 7) {
      byte = *p++;
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    if (byte >= 0x80) return std::nullopt;
    out[count++] = value;
    max = std::max(max, value);
  }
  return Varints32{count, max};
}

#if defined(__x86_64__)

uint64_t Load64(const char* p) {
  uint64_t word;
  std::memcpy(&word, p, 8);
  return word;
}

// The top bits of 64 bytes at once show where every number ends; each number is then one 8-byte
// load, cut to its length and squeezed by PEXT, with no dependence on the number before it.
__attribute__((target("avx2,bmi,bmi2"))) std::optional<Varints32> DecodeAvx2(std::string_view list,
                                                                             uint32_t* out) {
  const char* p = list.data();
  size_t left = list.size();
  uint32_t* to = out;
  uint64_t max = 0;
  while (left > 0) {
    const auto load = [&](size_t at) __attribute__((target("avx2"), always_inline)) {
      const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + at));
      return static_cast<uint64_t>(static_cast<uint32_t>(_mm256_movemask_epi8(bytes)));
    };
    const uint64_t more = load(0) | load(32) << 32;
    if (more & (more >> 1) & (more >> 2) & (more >> 3)) {
      // A run of four top bits: a long number, unless it lies past the end of the list.
      const uint64_t inside = left >= 64 ? ~uint64_t{0} : (uint64_t{1} << left) - 1;
      const uint64_t in = more & inside;
      if (in & (in >> 1) & (in >> 2) & (in >> 3)) return std::nullopt;
    }
    uint64_t ends = ~more;
    if (left < 64) ends = _bzhi_u64(ends, static_cast<uint32_t>(left));
    if (ends == 0) return std::nullopt;
    size_t begin = 0;
    while (ends != 0) {
      const size_t last = _tzcnt_u64(ends);
      ends = _blsr_u64(ends);
      const uint64_t word =
          _bzhi_u64(Load64(p + begin), static_cast<uint32_t>(8 * (last + 1 - begin)));
      const uint64_t value = _pext_u64(word, 0x7f7f7f7f7f7f7f7fu);
      *to++ = static_cast<uint32_t>(value);
      max = std::max(max, value);
      begin = last + 1;
    }
    if (left <= 64 && begin != left) return std::nullopt;
    p += begin;
    left -= begin;
  }
  return Varints32{static_cast<size_t>(to - out), static_cast<uint32_t>(max)};
}

// Sixteen numbers per round. The byte positions of their first and last bytes are compressed out of
// 0..63, each number's bytes are gathered into a 32-bit lane by one byte permutation (bytes behind
// its last one masked to zero), and two multiply-adds join the groups of seven bits.
__attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi,bmi2")))
std::optional<Varints32>
DecodeAvx512(std::string_view list, uint32_t* out) {
  alignas(64) static constexpr auto kIota = [] {
    std::array<uint8_t, 64> bytes{};
    for (size_t i = 0; i < 64; ++i) bytes[i] = static_cast<uint8_t>(i);
    return bytes;
  }();
  alignas(64) static constexpr auto kSpread = [] {
    std::array<uint8_t, 64> bytes{};
    for (size_t i = 0; i < 64; ++i) bytes[i] = static_cast<uint8_t>(i / 4);
    return bytes;
  }();
  const __m512i iota = _mm512_load_si512(kIota.data());
  const __m512i spread = _mm512_load_si512(kSpread.data());
  const __m512i within = _mm512_set1_epi32(0x03020100);
  const __m512i seven = _mm512_set1_epi8(0x7f);
  const __m512i join_bytes = _mm512_set1_epi16(static_cast<int16_t>(0x8001));
  const __m512i join_words = _mm512_set1_epi32(0x40000001);
  __m512i max = _mm512_setzero_si512();
  const char* p = list.data();
  size_t left = list.size();
  uint32_t* to = out;
  while (left > 0) {
    const __m512i bytes = _mm512_loadu_si512(p);
    const uint64_t inside =
        _bzhi_u64(~uint64_t{0}, static_cast<uint32_t>(std::min<size_t>(left, 64)));
    const uint64_t more = _mm512_movepi8_mask(bytes) & inside;
    if (more & (more >> 1) & (more >> 2) & (more >> 3)) return std::nullopt;
    const uint64_t ends = ~more & inside;
    if (ends == 0) return std::nullopt;
    const uint64_t begins = (ends << 1) | 1;
    const __m512i first = _mm512_permutexvar_epi8(spread, _mm512_maskz_compress_epi8(begins, iota));
    const __m512i last = _mm512_permutexvar_epi8(spread, _mm512_maskz_compress_epi8(ends, iota));
    const __m512i wanted = _mm512_add_epi8(first, within);
    const __mmask64 kept = _mm512_cmple_epu8_mask(wanted, last);
    const __m512i groups =
        _mm512_and_si512(_mm512_maskz_permutexvar_epi8(kept, wanted, bytes), seven);
    __m512i numbers = _mm512_madd_epi16(_mm512_maddubs_epi16(join_bytes, groups), join_words);
    const size_t count = static_cast<size_t>(__builtin_popcountll(ends));
    if (count >= 16) {
      const size_t used = _tzcnt_u64(_pdep_u64(uint64_t{1} << 15, ends)) + 1;
      _mm512_storeu_si512(to, numbers);
      max = _mm512_max_epu32(max, numbers);
      to += 16;
      p += used;
      left -= used;
      continue;
    }
    // Fewer than sixteen end here: these are the list's last, or its end is missing.
    const size_t used = 64 - static_cast<size_t>(__builtin_clzll(ends));
    if (used != left) return std::nullopt;
    numbers = _mm512_maskz_mov_epi32(static_cast<__mmask16>((1u << count) - 1), numbers);
    _mm512_storeu_si512(to, numbers);
    max = _mm512_max_epu32(max, numbers);
    to += count;
    left = 0;
  }
  return Varints32{static_cast<size_t>(to - out), _mm512_reduce_max_epu32(max)};
}

#endif  // x86-64

}  // namespace

Varints32Function DecodeVarints32For(CpuLevel level) {
#if defined(__x86_64__)
  if (level >= CpuLevel::kAvx512) return DecodeAvx512;
  if (level >= CpuLevel::kAvx2) return DecodeAvx2;
#endif
  (void)level;
  return DecodePlain;
}

std::optional<size_t> DecodeVarints64(std::string_view list, uint64_t* out) {
  const auto* p = reinterpret_cast<const unsigned char*>(list.data());
  const auto* end = p + list.size();
  size_t count = 0;
  while (p < end) {
    uint64_t value = 0;
    uint64_t byte = 0x80;
    for (int shift = 0; shift < 70 && p < end; shift += 7) {
      byte = *p++;
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    if (byte >= 0x80) return std::nullopt;
    out[count++] = value;
  }
  return count;
}

}  // namespace millrace::io
