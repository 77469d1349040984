// SPDX-License-Identifier: Apache-2.0
#include "io/base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace millrace {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78u;  // bit-reversed

// Multiplies by x modulo P, in the bit-reversed domain.
constexpr uint32_t AdvanceOneBit(uint32_t crc) {
  return (crc >> 1) ^ ((crc & 1) ? kPolynomial : 0);
}

// tables[k][b]: the CRC state after byte b and k zero bytes.
constexpr std::array<std::array<uint32_t, 256>, 8> MakeTables() {
  std::array<std::array<uint32_t, 256>, 8> tables{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = AdvanceOneBit(crc);
    tables[0][b] = crc;
  }
  for (uint32_t b = 0; b < 256; ++b) {
    for (size_t k = 1; k < 8; ++k) {
      tables[k][b] = (tables[k - 1][b] >> 8) ^ tables[0][tables[k - 1][b] & 0xff];
    }
  }
  return tables;
}
constexpr auto kTables = MakeTables();

uint64_t Load64(const unsigned char* p) {
  uint64_t word;
  std::memcpy(&word, p, 8);
  return word;
}

// Slicing by eight; little-endian machines only, as the whole project is.
uint32_t Crc32cPlain(const void* data, size_t size, uint32_t crc) {
  const auto* p = static_cast<const unsigned char*>(data);
  crc = ~crc;
  for (; size >= 8; size -= 8, p += 8) {
    const uint64_t word = Load64(p) ^ crc;
    crc = kTables[7][word & 0xff] ^ kTables[6][(word >> 8) & 0xff] ^
          kTables[5][(word >> 16) & 0xff] ^ kTables[4][(word >> 24) & 0xff] ^
          kTables[3][(word >> 32) & 0xff] ^ kTables[2][(word >> 40) & 0xff] ^
          kTables[1][(word >> 48) & 0xff] ^ kTables[0][word >> 56];
  }
  for (; size > 0; --size, ++p) crc = (crc >> 8) ^ kTables[0][(crc ^ *p) & 0xff];
  return ~crc;
}

#if defined(__x86_64__)

// The crc32 instruction takes 3 cycles but one can start every cycle: so three streams of `words`
// 8-byte words run side by side and are joined by multiplying the first two with x^(distance)
// modulo P.

constexpr size_t kMaxWords = 256;  // per stream, so at most 6 KB per round

// Shift constants for PCLMULQDQ: kShift[n] = x^(64 n - 33) mod P in the bit-reversed domain, so
// that crc32_u64(0, clmul(crc, kShift[n])) advances crc over n zero words.
constexpr std::array<uint32_t, 2 * kMaxWords + 1> MakeShifts() {
  std::array<uint32_t, 2 * kMaxWords + 1> shifts{};
  uint32_t power = 0x80000000u;  // x^0
  for (int bit = 0; bit < 64 - 33; ++bit) power = AdvanceOneBit(power);
  for (size_t n = 1; n <= 2 * kMaxWords; ++n) {
    shifts[n] = power;
    for (int bit = 0; bit < 64; ++bit) power = AdvanceOneBit(power);
  }
  return shifts;
}
// 512 constants; building them at compile time exceeds the compiler's step limit, so once at start.
const std::array<uint32_t, 2 * kMaxWords + 1> kShift = MakeShifts();

__attribute__((target("sse4.2,pclmul"))) inline uint64_t Shift(uint32_t crc, size_t words) {
  const __m128i product =
      _mm_clmulepi64_si128(_mm_cvtsi32_si128(static_cast<int>(crc)),
                           _mm_cvtsi32_si128(static_cast<int>(kShift[words])), 0);
  return static_cast<uint64_t>(_mm_cvtsi128_si64(product));
}

__attribute__((target("sse4.2,pclmul"))) uint32_t Crc32cSse42(const void* data, size_t size,
                                                              uint32_t crc) {
  const auto* p = static_cast<const unsigned char*>(data);
  uint64_t a = static_cast<uint32_t>(~crc);
  while (size >= 72) {
    size_t words = size / 24;
    if (words > kMaxWords) words = kMaxWords;
    const unsigned char* pb = p + 8 * words;
    const unsigned char* pc = pb + 8 * words;
    uint64_t b = 0, c = 0;
    // The last word of the third stream is folded in together with the two shifted sums.
    for (size_t i = 0; i + 1 < words; ++i) {
      a = _mm_crc32_u64(a, Load64(p + 8 * i));
      b = _mm_crc32_u64(b, Load64(pb + 8 * i));
      c = _mm_crc32_u64(c, Load64(pc + 8 * i));
    }
    a = _mm_crc32_u64(a, Load64(p + 8 * (words - 1)));
    b = _mm_crc32_u64(b, Load64(pb + 8 * (words - 1)));
    const uint64_t last = Load64(pc + 8 * (words - 1));
    const uint64_t joined =
        Shift(static_cast<uint32_t>(a), 2 * words) ^ Shift(static_cast<uint32_t>(b), words);
    a = _mm_crc32_u64(c, last ^ joined);
    p += 24 * words;
    size -= 24 * words;
  }
  for (; size >= 8; size -= 8, p += 8) a = _mm_crc32_u64(a, Load64(p));
  auto tail = static_cast<uint32_t>(a);
  if (size & 4) {
    uint32_t word;
    std::memcpy(&word, p, 4);
    tail = _mm_crc32_u32(tail, word);
    p += 4;
  }
  if (size & 2) {
    uint16_t word;
    std::memcpy(&word, p, 2);
    tail = _mm_crc32_u16(tail, word);
    p += 2;
  }
  if (size & 1) tail = _mm_crc32_u8(tail, *p);
  return ~tail;
}

#endif  // x86-64

// Bit-reversed polynomials: the highest bit is x^0.
constexpr uint32_t Multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (int bit = 31; bit >= 0; --bit) {
    product ^= b & (0u - ((a >> bit) & 1));
    b = AdvanceOneBit(b);
  }
  return product;
}

// powers[k]: x^(8 * 2^k), which advances a CRC over 2^k zero bytes.
constexpr std::array<uint32_t, 64> MakePowers() {
  std::array<uint32_t, 64> powers{};
  uint32_t power = 0x00800000u;  // x^8
  for (uint32_t& p : powers) {
    p = power;
    power = Multiply(power, power);
  }
  return powers;
}
constexpr auto kPowers = MakePowers();

const internal::CrcFunction kBest = internal::Crc32cFor(DetectCpuLevel());

}  // namespace

namespace internal {
CrcFunction Crc32cFor(CpuLevel level) {
#if defined(__x86_64__)
  if (level >= CpuLevel::kSse42) return Crc32cSse42;
#endif
  (void)level;
  return Crc32cPlain;
}
}  // namespace internal

uint32_t Crc32c(const void* data, size_t size, uint32_t crc) { return kBest(data, size, crc); }

uint32_t CombineCrc32c(uint32_t crc_a, uint32_t crc_b, uint64_t size_b) {
  for (size_t k = 0; size_b != 0; ++k, size_b >>= 1) {
    if (size_b & 1) crc_a = Multiply(crc_a, kPowers[k]);
  }
  return crc_a ^ crc_b;
}

}  // namespace millrace
