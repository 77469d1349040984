// SPDX-License-Identifier: Apache-2.0
#include "io/text/csv_dialect.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <tuple>

#include "io/base/printable.h"
#include "io/record/byte_source.h"
#include "io/record/csv_framing.h"
#include "io/text/csv_columns.h"
#include "io/text/line_cursor.h"

namespace millrace::io {
namespace {

constexpr size_t kMaxRecords = 100;
constexpr std::string_view kDelimiters = ",\t;|";
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

using Cells = std::vector<std::string>;

std::string_view WithoutMark(std::string_view text) {
  return text.starts_with(kByteOrderMark) ? text.substr(kByteOrderMark.size()) : text;
}

std::string_view WithoutReturn(std::string_view record) {
  return record.ends_with('\r') ? record.substr(0, record.size() - 1) : record;
}

// The first records, without blank lines. The last one is left out if it may be cut off.
std::vector<std::string_view> FirstRecords(std::string_view text, char delimiter, bool is_whole) {
  std::vector<std::string_view> records;
  while (!text.empty() && records.size() < kMaxRecords) {
    CsvEnd end = FindCsvEnd(text, delimiter);
    // A record with broken quotes is a line.
    if (end.kind == CsvEnd::Kind::kBroken || (end.kind == CsvEnd::Kind::kOpen && is_whole)) {
      end.at = std::min(text.find('\n'), text.size());
    } else if (end.kind != CsvEnd::Kind::kNewline) {
      if (!is_whole && !records.empty()) break;
      end.at = text.size();
    }
    const std::string_view record = WithoutReturn(text.substr(0, end.at));
    if (!record.empty()) records.push_back(record);
    text.remove_prefix(std::min(end.at + 1, text.size()));
  }
  return records;
}

struct Candidate {
  char delimiter = ',';
  std::vector<Cells> rows = {};  // an empty one has broken quotes
  size_t like_first = 0;         // rows with as many cells as the first

  size_t width() const { return rows.empty() ? 0 : rows[0].size(); }
  bool is_consistent() const { return width() >= 2 && like_first == rows.size(); }
};

Candidate Split(std::string_view text, char delimiter, bool is_whole) {
  Candidate candidate = {.delimiter = delimiter};
  for (const std::string_view record : FirstRecords(text, delimiter, is_whole)) {
    Result<Cells> cells = SplitCsvRecord(record, delimiter);
    candidate.rows.push_back(cells.ok() ? std::move(*cells) : Cells());
  }
  for (const Cells& row : candidate.rows) {
    if (!row.empty() && row.size() == candidate.width()) ++candidate.like_first;
  }
  return candidate;
}

Candidate BestCandidate(std::string_view text, bool is_whole) {
  Candidate best = Split(text, kDelimiters[0], is_whole);
  const auto rank = [](const Candidate& c) {
    const bool splits = c.width() >= 2;
    return std::tuple(c.is_consistent(), splits ? c.like_first : 0, splits ? c.width() : 0);
  };
  for (const char delimiter : kDelimiters.substr(1)) {
    Candidate candidate = Split(text, delimiter, is_whole);
    if (rank(candidate) > rank(best)) best = std::move(candidate);
  }
  return best;
}

bool IsNumber(std::string_view cell) {
  while (cell.starts_with(' ')) cell.remove_prefix(1);
  while (cell.ends_with(' ')) cell.remove_suffix(1);
  if (cell.starts_with('+')) cell.remove_prefix(1);
  double number = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), number);
  return !cell.empty() && end == cell.data() + cell.size() &&
         error != std::errc::invalid_argument && std::isfinite(number);
}

bool IsHeader(const std::vector<Cells>& rows) {
  const Cells& names = rows[0];
  const std::set<std::string> distinct(names.begin(), names.end());
  if (distinct.size() != names.size()) return false;
  // A table that was written with its row numbers has no name for them.
  if (std::any_of(names.begin() + 1, names.end(), [](const auto& name) { return name.empty(); }) ||
      (names.size() == 1 && names[0].empty())) {
    return false;
  }
  if (std::any_of(names.begin(), names.end(), IsNumber)) return false;
  bool has_numbers = false, comes_again = false;
  for (size_t r = 1; r < rows.size(); ++r) {
    if (rows[r].size() != names.size()) continue;
    for (size_t i = 0; i < names.size(); ++i) {
      has_numbers |= IsNumber(rows[r][i]);
      comes_again |= !names[i].empty() && rows[r][i] == names[i];
    }
  }
  return has_numbers || !comes_again;
}

void NameUnnamed(Cells& columns) {
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].empty()) columns[i] = "c" + std::to_string(i + 1);
  }
}

Result<CsvDialect> FindDialect(std::string_view text, bool is_whole,
                               const CsvDialectOptions& options) {
  text = WithoutMark(text);
  const Candidate found = options.delimiter == '\0' ? BestCandidate(text, is_whole)
                                                    : Split(text, options.delimiter, is_whole);
  if (found.rows.empty()) {
    if (options.columns.empty()) return Invalid("expected rows of CSV text, found no rows");
    return CsvDialect{.delimiter = found.delimiter, .columns = options.columns};
  }
  const std::string_view first = FirstRecords(text, found.delimiter, is_whole)[0];
  const bool is_cut_off =
      !is_whole && text.find('\n', static_cast<size_t>(first.end() - text.begin())) == text.npos;
  if (is_cut_off && options.columns.empty()) {
    return Invalid("first record: expected its end in the first " + std::to_string(kFirstBytes) +
                   " bytes, found none");
  }
  if (found.rows[0].empty()) {
    return Invalid("first record: " + SplitCsvRecord(first, found.delimiter).status().message());
  }
  CsvDialect dialect = {.delimiter = found.delimiter, .columns = found.rows[0]};
  if (!options.columns.empty()) {
    dialect.has_header = options.columns == dialect.columns;
    dialect.columns = options.columns;
  } else {
    dialect.has_header = options.header == CsvHeader::kYes ||
                         (options.header == CsvHeader::kDetect && IsHeader(found.rows));
    if (!dialect.has_header) dialect.columns.assign(dialect.columns.size(), "");
    NameUnnamed(dialect.columns);
  }
  if (dialect.has_header) dialect.header = first;
  return dialect;
}

}  // namespace

Result<char> CsvDelimiterFromName(std::string_view name) {
  if (name == "tab") return '\t';
  if (name.size() == 1 && kDelimiters.find(name[0]) != kDelimiters.npos) return name[0];
  return Invalid("delimiter: expected ',', ';', '|' or tab, found " + Quoted(name));
}

Result<CsvDialect> FindCsvDialect(std::string_view first_bytes, const CsvDialectOptions& options) {
  return FindDialect(first_bytes.substr(0, kFirstBytes), first_bytes.size() < kFirstBytes, options);
}

Result<CsvDialect> FindCsvDialectOfFile(const std::string& path, const CsvDialectOptions& options) {
  ASSIGN_OR_RETURN(const FirstBytes first, ReadFirstBytes(path));
  Result<CsvDialect> dialect = FindCsvDialect(first.bytes, options);
  if (!dialect.ok()) return Invalid(path + ": " + dialect.status().message());
  return dialect;
}

bool LooksLikeCsv(std::string_view first_bytes) {
  const bool is_whole = first_bytes.size() < kFirstBytes && first_bytes.ends_with('\n');
  return BestCandidate(WithoutMark(first_bytes.substr(0, kFirstBytes)), is_whole).is_consistent();
}

Status CheckCsvColumns(const CsvDialect& dialect, const std::vector<std::string>& wanted) {
  for (const std::string& name : wanted) {
    const auto count = std::count(dialect.columns.begin(), dialect.columns.end(), name);
    if (count == 1) continue;
    if (count > 1) {
      return Invalid("column '" + name + "': expected one column of that name, found " +
                     std::to_string(count));
    }
    return Invalid("column '" + name + "': expected one of the columns " +
                   ListedNames(dialect.columns) + ", found none of that name" +
                   (dialect.has_header ? "" : " (the file has no header)"));
  }
  return {};
}

}  // namespace millrace::io
