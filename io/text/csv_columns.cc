// SPDX-License-Identifier: Apache-2.0
#include "io/text/csv_columns.h"

#include <algorithm>
#include <bit>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "io/text/line_cursor.h"

namespace millrace::io {
namespace {

constexpr size_t kChunk = 64;

// Bit i is the parity of the bits 0 to i.
uint64_t PrefixXor(uint64_t bits) {
  for (int shift = 1; shift < 64; shift *= 2) bits ^= bits << shift;
  return bits;
}

// Collects the positions of delimiters from masks of 64 bytes: bit i is byte i.
struct IndexWriter {
  uint32_t* out;
  uint64_t inside = 0;  // all ones after an odd number of quotes
  size_t quotes = 0;

  [[gnu::always_inline]] void Add(uint64_t delimiter_mask, uint64_t quote_mask, size_t at) {
    if (quote_mask != 0 || inside != 0) {
      const uint64_t quoted = PrefixXor(quote_mask) ^ inside;
      quotes += static_cast<size_t>(std::popcount(quote_mask));
      inside = 0 - (quoted >> 63);
      delimiter_mask &= ~quoted;
    }
    const int count = std::popcount(delimiter_mask);
    // In groups of four, so that there is no branch per bit: what is too much is overwritten.
    for (int i = 0; i < count; i += 4) {
      for (int k = 0; k < 4; ++k) {
        out[i + k] =
            static_cast<uint32_t>(at) + static_cast<uint32_t>(std::countr_zero(delimiter_mask));
        delimiter_mask &= delimiter_mask - 1;
      }
    }
    out += count;
  }
};

CsvIndex IndexPlain(std::string_view record, char delimiter, uint32_t* out) {
  CsvIndex index;
  for (size_t i = 0; i < record.size(); ++i) {
    if (record[i] == '"') {
      ++index.quotes;
    } else if (record[i] == delimiter && index.quotes % 2 == 0) {
      out[index.delimiters++] = static_cast<uint32_t>(i);
    }
  }
  return index;
}

#if defined(__x86_64__)
#define TARGET_SSE42 __attribute__((target("sse4.2,popcnt")))
#define TARGET_AVX2 __attribute__((target("avx2,bmi,popcnt")))

TARGET_SSE42 inline uint64_t Equal64(const char* p, __m128i wanted) {
  uint64_t mask = 0;
  for (int i = 0; i < 4; ++i) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p) + i);
    const int equal = _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, wanted));
    mask |= static_cast<uint64_t>(static_cast<uint32_t>(equal)) << (16 * i);
  }
  return mask;
}

TARGET_AVX2 inline uint64_t Equal64(const char* p, __m256i wanted) {
  const auto* bytes = reinterpret_cast<const __m256i*>(p);
  const int low = _mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_loadu_si256(bytes), wanted));
  const int high = _mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_loadu_si256(bytes + 1), wanted));
  return static_cast<uint32_t>(low) | static_cast<uint64_t>(static_cast<uint32_t>(high)) << 32;
}

TARGET_SSE42 CsvIndex IndexSse42(std::string_view record, char delimiter, uint32_t* out) {
  const __m128i delimiters = _mm_set1_epi8(delimiter), quotes = _mm_set1_epi8('"');
  IndexWriter writer = {out};
  size_t at = 0;
  for (; record.size() - at >= kChunk; at += kChunk) {
    const char* p = record.data() + at;
    writer.Add(Equal64(p, delimiters), Equal64(p, quotes), at);
  }
  char last[kChunk] = {};
  std::memcpy(last, record.data() + at, record.size() - at);
  writer.Add(Equal64(last, delimiters), Equal64(last, quotes), at);
  return {static_cast<size_t>(writer.out - out), writer.quotes};
}

TARGET_AVX2 CsvIndex IndexAvx2(std::string_view record, char delimiter, uint32_t* out) {
  const __m256i delimiters = _mm256_set1_epi8(delimiter), quotes = _mm256_set1_epi8('"');
  IndexWriter writer = {out};
  size_t at = 0;
  for (; record.size() - at >= kChunk; at += kChunk) {
    const char* p = record.data() + at;
    writer.Add(Equal64(p, delimiters), Equal64(p, quotes), at);
  }
  char last[kChunk] = {};
  std::memcpy(last, record.data() + at, record.size() - at);
  writer.Add(Equal64(last, delimiters), Equal64(last, quotes), at);
  return {static_cast<size_t>(writer.out - out), writer.quotes};
}
#endif

// A cell that begins at `at` with a quote: the byte after its closing quote, or npos.
size_t CloseOf(std::string_view record, size_t at) {
  for (size_t q = record.find('"', at + 1); q != record.npos; q = record.find('"', q + 2)) {
    if (q + 1 == record.size() || record[q + 1] != '"') return q + 1;
  }
  return record.npos;
}

std::string DelimiterName(char delimiter) {
  return delimiter == '\t' ? "a tab" : std::string("'") + delimiter + "'";
}

Status CellError(size_t cell, size_t at, const std::string& expected, const std::string& found) {
  return Corrupt("cell " + std::to_string(cell + 1) + " (byte " + std::to_string(at + 1) +
                 "): expected " + expected + ", found " + found);
}

}  // namespace

CsvIndexFunction CsvIndexFor(CpuLevel level) {
#if defined(__x86_64__)
  if (level >= CpuLevel::kAvx2) return IndexAvx2;
  if (level >= CpuLevel::kSse42) return IndexSse42;
#endif
  (void)level;
  return IndexPlain;
}

Result<std::vector<std::string>> SplitCsvRecord(std::string_view record, char delimiter) {
  std::vector<std::string> cells;
  for (size_t at = 0;; ++at) {
    std::string& cell = cells.emplace_back();
    size_t end;
    if (at < record.size() && record[at] == '"') {
      end = CloseOf(record, at);
      if (end == record.npos) {
        return CellError(cells.size() - 1, at, "a closing quote", "the end of the record");
      }
      if (end < record.size() && record[end] != delimiter) {
        return CellError(cells.size() - 1, end,
                         DelimiterName(delimiter) + " or a line end after the closing quote",
                         Quoted(record.substr(end)));
      }
      for (size_t i = at + 1; i + 1 < end; ++i) {
        cell += record[i];
        if (record[i] == '"') ++i;
      }
    } else {
      end = std::min(record.find(delimiter, at), record.size());
      cell = record.substr(at, end - at);
      if (const size_t quote = cell.find('"'); quote != cell.npos) {
        return CellError(cells.size() - 1, at + quote,
                         "quotes around the whole cell, doubled inside", Quoted(cell));
      }
    }
    if (end == record.size()) return cells;
    at = end;
  }
}

CsvColumns::CsvColumns(const std::vector<std::string>& columns, char delimiter,
                       const std::vector<std::string>& wanted, CpuLevel level)
    : columns_(columns),
      delimiter_(delimiter),
      index_(CsvIndexFor(level)),
      row_columns_(wanted.size()) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto found = std::find(columns.begin(), columns.end(), wanted[i]);
    if (found == columns.end()) continue;
    targets_.push_back({static_cast<uint32_t>(found - columns.begin()), static_cast<uint32_t>(i)});
  }
  std::sort(targets_.begin(), targets_.end(),
            [](const Target& a, const Target& b) { return a.cell < b.cell; });
}

Result<bool> CsvColumns::Read(std::string_view record, FieldRow& row) {
  row.Clear(row_columns_);
  if (record.empty()) return false;
  if (ends_.size() < record.size() + kCsvIndexSlack) {
    ends_.resize(std::bit_ceil(record.size() + kCsvIndexSlack));
  }
  const CsvIndex index = index_(record, delimiter_, ends_.data());
  ends_[index.delimiters] = static_cast<uint32_t>(record.size());
  if (index.delimiters + 1 != columns_.size()) return Error(record);
  if (index.quotes == 0) {
    ReadPlain(record, row);
  } else if (!ReadQuoted(record, index.quotes, row)) {
    return Error(record);
  }
  return true;
}

inline std::string_view CsvColumns::Cell(std::string_view record, size_t cell) const {
  const size_t begin = cell == 0 ? 0 : ends_[cell - 1] + size_t{1};
  return {record.data() + begin, ends_[cell] - begin};
}

void CsvColumns::ReadPlain(std::string_view record, FieldRow& row) const {
  for (const Target& target : targets_) {
    row.Begin(target.column);
    row.AddText(Cell(record, target.cell));
  }
}

// False if a quote is where none may be.
bool CsvColumns::ReadQuoted(std::string_view record, size_t quotes, FieldRow& row) {
  size_t enclosing = 0;
  for (size_t i = 0; i < columns_.size(); ++i) {
    const std::string_view cell = Cell(record, i);
    if (cell.empty() || cell.front() != '"') continue;
    if (cell.size() < 2 || cell.back() != '"') return false;
    enclosing += 2;
  }
  const bool has_inner = enclosing != quotes;
  if (has_inner) {
    unescaped_size_ = 0;
    if (unescaped_.size() < record.size()) unescaped_.resize(std::bit_ceil(record.size()));
    for (size_t i = 0; i < columns_.size(); ++i) {
      std::string_view cell = Cell(record, i);
      const bool is_quoted = !cell.empty() && cell.front() == '"';
      if (is_quoted) cell = cell.substr(1, cell.size() - 2);
      for (size_t q = cell.find('"'); q != cell.npos; q = cell.find('"', q + 2)) {
        if (!is_quoted || q + 1 == cell.size() || cell[q + 1] != '"') return false;
      }
    }
  }
  for (const Target& target : targets_) {
    std::string_view cell = Cell(record, target.cell);
    if (!cell.empty() && cell.front() == '"') cell = cell.substr(1, cell.size() - 2);
    row.Begin(target.column);
    row.AddText(has_inner && cell.find('"') != cell.npos ? Unescape(cell) : cell);
  }
  return true;
}

std::string_view CsvColumns::Unescape(std::string_view inner) {
  char* const begin = unescaped_.data() + unescaped_size_;
  char* out = begin;
  for (size_t i = 0; i < inner.size(); ++i) {
    *out++ = inner[i];
    if (inner[i] == '"') ++i;
  }
  unescaped_size_ += static_cast<size_t>(out - begin);
  return {begin, static_cast<size_t>(out - begin)};
}

// Of a record that is not a row: which cell is wrong, or how many there are.
Status CsvColumns::Error(std::string_view record) const {
  const Result<std::vector<std::string>> cells = SplitCsvRecord(record, delimiter_);
  if (!cells.ok()) return cells.status();
  std::string advice;
  if (cells->size() < columns_.size()) {
    advice = "; the first missing one is '" + columns_[cells->size()] + "'";
  }
  return Corrupt("expected " + std::to_string(columns_.size()) + " cells separated by " +
                 DelimiterName(delimiter_) + ", found " + std::to_string(cells->size()) + advice);
}

}  // namespace millrace::io
