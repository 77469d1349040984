// SPDX-License-Identifier: Apache-2.0
#include "io/text/criteo_names.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <string_view>
#include <utility>

#include "io/base/crc32c.h"
#include "io/base/printable.h"
#include "io/record/record_reader.h"
#include "io/text/criteo.h"

namespace millrace::io {
namespace {

constexpr std::string_view kVersionLine = "# millrace criteo vocabulary 1";
constexpr std::string_view kSizePrefix = "# num_features ";
constexpr std::string_view kCrcPrefix = "# crc32c ";

bool ParseNumber(std::string_view text, uint64_t& number) {
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  return parsed.ec == std::errc() && parsed.ptr == end;
}

// Removes the text before the next `separator` from `rest` and returns it.
std::string_view Cut(std::string_view& rest, char separator) {
  const size_t at = rest.find(separator);
  const std::string_view part = rest.substr(0, at);
  rest.remove_prefix(at == rest.npos ? rest.size() : at + 1);
  return part;
}

// "12..13" for the magnitudes of a bucket of criteo.h.
std::string BucketRange(uint64_t bucket, bool negative) {
  if (bucket < 4) return (negative ? "-" : "") + std::to_string(bucket);
  const uint64_t exponent = bucket / 4 + 1, quarter = bucket % 4;
  const uint64_t low = (4 + quarter) << (exponent - 2);
  const uint64_t high = low + (uint64_t{1} << (exponent - 2)) - 1;
  if (low == high) return (negative ? "-" : "") + std::to_string(low);
  if (negative) return "-" + std::to_string(high) + "..-" + std::to_string(low);
  return std::to_string(low) + ".." + std::to_string(high);
}

std::string NameOf(std::string_view field, std::string_view value) {
  std::string name = std::string(field) + "=";
  if (value == "*") return name + "other";
  if (value.empty()) return name + "missing";
  uint64_t token = 0;
  const bool is_integer = field.starts_with('I') && ParseNumber(value, token);
  return name + (is_integer ? CriteoIntegerRange(token) : std::string(value));
}

class NamesReader {
 public:
  NamesReader(const std::string& path, RecordReader lines)
      : path_(path), lines_(std::move(lines)) {}

  Result<uint64_t> Read(std::unordered_map<uint64_t, std::string>& names) {
    RETURN_IF_ERROR(Next());
    if (line_ != kVersionLine) return Error(kVersionLine);
    RETURN_IF_ERROR(Next());
    uint64_t num_features = 0;
    std::string_view size = line_.substr(std::min(kSizePrefix.size(), line_.size()));
    if (!line_.starts_with(kSizePrefix) || !ParseNumber(Cut(size, ' '), num_features)) {
      return Error("# num_features N");
    }
    RETURN_IF_ERROR(Next());  // names of the columns
    RETURN_IF_ERROR(Next());
    while (!line_.starts_with(kCrcPrefix)) {
      RETURN_IF_ERROR(TakeValue(names));
      RETURN_IF_ERROR(Next());
    }
    char digits[9];
    std::snprintf(digits, sizeof digits, "%08x", crc_before_);
    const std::string expected = std::string(kCrcPrefix) + digits;
    if (line_ != expected) return Error(expected);
    return num_features;
  }

 private:
  // At the end of the file an empty line that no step accepts.
  Status Next() {
    RecordView record;
    ASSIGN_OR_RETURN(const bool more, lines_.Next(record));
    ended_ = !more;
    line_ = more ? record.bytes : std::string_view();
    ++line_number_;
    crc_before_ = crc_;
    crc_ = Crc32c("\n", 1, Crc32c(line_.data(), line_.size(), crc_));
    return {};
  }

  Status TakeValue(std::unordered_map<uint64_t, std::string>& names) const {
    std::string_view rest = line_;
    const std::string_view field = Cut(rest, '\t'), value = Cut(rest, '\t'), text = Cut(rest, '\t');
    uint64_t key = 0;
    if (!ParseNumber(text, key)) return Error("a field, a value, a key and a count");
    const auto wanted = names.find(key);
    if (wanted != names.end()) wanted->second = PrintableLines(NameOf(field, value));
    return {};
  }

  Status Error(std::string_view expected) const {
    return Corrupt(path_ + ":" + std::to_string(line_number_) + ": expected " +
                   std::string(expected) + ", found " +
                   (ended_ ? "the end of the file" : "'" + std::string(line_.substr(0, 60)) + "'"));
  }

  std::string path_;
  RecordReader lines_;
  std::string_view line_;
  uint64_t line_number_ = 0;
  uint32_t crc_ = 0;         // of all lines so far
  uint32_t crc_before_ = 0;  // without line_
  bool ended_ = false;
};

}  // namespace

std::string CriteoIntegerRange(uint64_t token) {
  constexpr uint64_t kLastNegative = 2 * kCriteoNegative;
  if (token == 0 || token > kLastNegative) return std::to_string(token);
  if (token <= kCriteoNegative) return BucketRange(token - 1, false);
  return BucketRange(token - kCriteoNegative, true);
}

Result<uint64_t> FillCriteoNames(const std::string& path,
                                 std::unordered_map<uint64_t, std::string>& names) {
  const BlockOptions options = {.framing = Framing::kLines,
                                .max_record_bytes = kMaxCriteoVocabularyLine,
                                .regular_file = true};
  ASSIGN_OR_RETURN(RecordReader lines, RecordReader::Open(path, options));
  return NamesReader(path, std::move(lines)).Read(names);
}

}  // namespace millrace::io
