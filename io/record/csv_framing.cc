// SPDX-License-Identifier: Apache-2.0
#include "io/record/csv_framing.h"

#include <algorithm>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace millrace::io {
namespace {

// The byte after the quote that closes the cell which the quote `open` opens; npos if none does.
size_t AfterClosingQuote(std::string_view text, size_t open) {
  for (size_t at = text.find('"', open + 1); at != text.npos; at = text.find('"', at + 2)) {
    if (at + 1 == text.size() || text[at + 1] != '"') return at + 1;
  }
  return text.npos;
}

}  // namespace

CsvEnd FindCsvEnd(std::string_view text, char delimiter) {
  const char stops[] = {delimiter, '\n'};
  for (size_t at = 0;; ++at) {  // at the begin of a cell
    if (at < text.size() && text[at] == '"') {
      const size_t open = at;
      at = AfterClosingQuote(text, open);
      if (at == text.npos) return {CsvEnd::Kind::kOpen, open};
      const bool before_newline =
          at < text.size() && text[at] == '\r' && (at + 1 == text.size() || text[at + 1] == '\n');
      if (before_newline) ++at;
      if (at < text.size() && text[at] != delimiter && text[at] != '\n') {
        return {CsvEnd::Kind::kBroken, at};
      }
    } else {
      at = text.find_first_of({stops, 2}, at);
    }
    if (at >= text.size()) return {CsvEnd::Kind::kNoEnd, text.size()};
    if (text[at] == '\n') return {CsvEnd::Kind::kNewline, at};
  }
}

size_t CountQuotes(std::string_view text) {
  size_t count = 0, at = 0;
#if defined(__SSE2__)
  // Bytes of a comparison are 0 or -1: their difference counts, for at most 255 steps.
  const __m128i quote = _mm_set1_epi8('"'), zero = _mm_setzero_si128();
  while (text.size() - at >= 16) {
    const size_t end = at + std::min<size_t>((text.size() - at) / 16, 255) * 16;
    __m128i sums = zero;
    for (; at < end; at += 16) {
      const auto* bytes = reinterpret_cast<const __m128i*>(text.data() + at);
      sums = _mm_sub_epi8(sums, _mm_cmpeq_epi8(_mm_loadu_si128(bytes), quote));
    }
    const __m128i halves = _mm_sad_epu8(sums, zero);
    count += static_cast<size_t>(_mm_cvtsi128_si64(halves)) +
             static_cast<size_t>(_mm_cvtsi128_si64(_mm_unpackhi_epi64(halves, halves)));
  }
#endif
  for (; at < text.size(); ++at) count += text[at] == '"' ? 1 : 0;
  return count;
}

}  // namespace millrace::io
