// SPDX-License-Identifier: Apache-2.0
#include "io/text/criteo.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <vector>

#include "io/base/crc32c.h"
#include "io/base/string_hash.h"
#include "io/features/log_bucket.h"
#include "io/record/output_file.h"
#include "io/record/record_reader.h"
#include "io/text/line_cursor.h"

namespace millrace::io {
namespace {

constexpr int kColumns = 1 + kCriteoFields;
constexpr size_t kMaxHexDigits = 8;

// Parses all of `cell`, which is not empty.
template <typename Integer>
bool ParseWhole(std::string_view cell, int base, Integer& out) {
  const char* end = cell.data() + cell.size();
  const auto [stop, error] = std::from_chars(cell.data(), end, out, base);
  return error == std::errc() && stop == end;
}

bool CellToken(int field, std::string_view cell, uint64_t& token) {
  token = 0;
  if (cell.empty()) return true;
  if (field < kCriteoIntegers) {
    int64_t x = 0;
    if (!ParseWhole(cell, 10, x)) return false;
    // Negation in unsigned arithmetic holds for the least integer too.
    token = x >= 0 ? 1 + CriteoBucket(static_cast<uint64_t>(x))
                   : kCriteoNegative + CriteoBucket(-static_cast<uint64_t>(x));
    return true;
  }
  uint32_t category = 0;
  if (cell.size() > kMaxHexDigits || !ParseWhole(cell, 16, category)) return false;
  token = 1 + uint64_t{category};
  return true;
}

Status ColumnsError(size_t found) {
  return Corrupt("expected " + std::to_string(kColumns) +
                 " tab-separated columns (label, 13 integers, 26 categories), found " +
                 std::to_string(found));
}

Status CellError(const LineCursor& cursor, int field, std::string_view cell) {
  const char* kind = field < kCriteoIntegers ? "a 64-bit integer" : "up to 8 hex digits";
  return cursor.Error(cell.data(), kind + (" or nothing as " + CriteoFieldName(field)),
                      Quoted(cell));
}

}  // namespace

Result<bool> SplitCriteoLine(std::string_view line, CriteoLine& out, Labels labels) {
  LineCursor cursor(line);
  const std::string_view text = cursor.rest();
  if (text.find_first_not_of(' ') == text.npos) return false;

  std::string_view cells[kColumns];
  size_t found = 0;
  for (size_t begin = 0; begin <= text.size(); ++found) {
    const size_t tab = std::min(text.find('\t', begin), text.size());
    if (found < kColumns) cells[found] = text.substr(begin, tab - begin);
    begin = tab + 1;
  }
  if (found != kColumns) return ColumnsError(found);

  if (cells[0] == "0" || cells[0] == "1") {
    out.label = cells[0] == "1" ? 1 : 0;
  } else if (cells[0].empty() && labels == Labels::kOptional) {
    out.label = kNoLabel;
  } else {
    return cursor.Error(cells[0].data(), "the label 0 or 1", Quoted(cells[0]));
  }
  for (int field = 0; field < kCriteoFields; ++field) {
    out.fields[field] = cells[1 + field];
    uint64_t token = 0;
    if (!CellToken(field, out.fields[field], token)) {
      return CellError(cursor, field, out.fields[field]);
    }
  }
  return true;
}

std::string CriteoFieldName(int field) {
  return field < kCriteoIntegers ? "I" + std::to_string(field + 1)
                                 : "C" + std::to_string(field - kCriteoIntegers + 1);
}

uint32_t CriteoBucket(uint64_t magnitude) { return LogBucket(magnitude, 4); }

uint64_t CriteoToken(int field, std::string_view cell) {
  uint64_t token = 0;
  return CellToken(field, cell, token) ? token : 0;
}

void CriteoHasher::Encode(const CriteoLine& line, SparseRow& row) const {
  row.Clear();
  row.label = line.label;
  for (int field = 0; field < kCriteoFields; ++field) {
    const uint64_t hash =
        DeriveSeed(0, static_cast<uint64_t>(field), CriteoToken(field, line.fields[field]));
    row.Add(MaskKey(hash, hash_bits_), 1);
  }
}

uint64_t CriteoHasher::num_features() const {
  return hash_bits_ == 0 || hash_bits_ == 64 ? 0 : uint64_t{1} << hash_bits_;
}

void CriteoVocabulary::Count(const CriteoLine& line) {
  CHECK(!frozen_);
  for (int field = 0; field < kCriteoFields; ++field) {
    ++fields_[field].values[CriteoToken(field, line.fields[field])].count;
  }
}

namespace {

template <typename Map>
std::vector<uint64_t> SortedTokens(const Map& values) {
  std::vector<uint64_t> tokens;
  tokens.reserve(values.size());
  for (const auto& [token, value] : values) tokens.push_back(token);
  std::sort(tokens.begin(), tokens.end());
  return tokens;
}

}  // namespace

void CriteoVocabulary::Freeze(uint64_t min_count) {
  CHECK(!frozen_);
  for (Field& field : fields_) {
    if (field.unseen.key == kNoKey) field.unseen.key = num_features_++;
    for (const uint64_t token : SortedTokens(field.values)) {
      const auto value = field.values.find(token);
      if (value->second.key != kNoKey) continue;
      if (value->second.count < min_count) {
        field.unseen.count += value->second.count;
        field.values.erase(value);
      } else {
        value->second.key = num_features_++;
      }
    }
  }
  min_count_ = min_count;
  frozen_ = true;
}

void CriteoVocabulary::Encode(const CriteoLine& line, SparseRow& row) const {
  CHECK(frozen_);
  row.Clear();
  row.label = line.label;
  for (int f = 0; f < kCriteoFields; ++f) {
    const Field& field = fields_[f];
    const auto value = field.values.find(CriteoToken(f, line.fields[f]));
    row.Add(value == field.values.end() ? field.unseen.key : value->second.key, 1);
  }
}

namespace {

constexpr std::string_view kVersionLine = "# millrace criteo vocabulary 1";
constexpr std::string_view kColumnsLine = "field\tvalue\tkey\tcount";
constexpr std::string_view kCrcPrefix = "# crc32c ";
constexpr std::string_view kUnseen = "*";

std::string HeaderLine(uint64_t num_features, uint64_t min_count) {
  return "# num_features " + std::to_string(num_features) + " min_count " +
         std::to_string(min_count);
}

std::string CrcLine(uint32_t crc) {
  char hex[9];
  std::snprintf(hex, sizeof hex, "%08x", crc);
  return std::string(kCrcPrefix) + hex;
}

std::string ValueText(int field, uint64_t token) {
  if (token == 0) return "";
  if (field < kCriteoIntegers) return std::to_string(token);
  char hex[9];
  std::snprintf(hex, sizeof hex, "%08x", static_cast<uint32_t>(token - 1));
  return hex;
}

bool ValueToken(int field, std::string_view text, uint64_t& token) {
  if (field >= kCriteoIntegers || text.empty()) return CellToken(field, text, token);
  return ParseWhole(text, 10, token) && token > 0;
}

// Lines with a running checksum.
class CheckedText {
 public:
  explicit CheckedText(OutputFile file) : file_(std::move(file)) {}

  Status Line(std::string_view line) {
    const size_t begin = buffer_.size();
    buffer_ += line;
    buffer_ += '\n';
    crc_ = Crc32c(buffer_.data() + begin, buffer_.size() - begin, crc_);
    constexpr size_t kFlushBytes = 256 << 10;
    return buffer_.size() < kFlushBytes ? Status() : Flush();
  }
  Status Finish() {
    RETURN_IF_ERROR(Line(CrcLine(crc_)));
    RETURN_IF_ERROR(Flush());
    return file_.Commit();
  }

 private:
  Status Flush() {
    RETURN_IF_ERROR(file_.Write(buffer_));
    buffer_.clear();
    return {};
  }

  OutputFile file_;
  std::string buffer_;
  uint32_t crc_ = 0;
};

}  // namespace

Status CriteoVocabulary::Save(const std::string& path) const {
  CHECK(frozen_);
  ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path));
  CheckedText text(std::move(file));
  RETURN_IF_ERROR(text.Line(kVersionLine));
  RETURN_IF_ERROR(text.Line(HeaderLine(num_features_, min_count_)));
  RETURN_IF_ERROR(text.Line(kColumnsLine));
  for (int f = 0; f < kCriteoFields; ++f) {
    const std::string name = CriteoFieldName(f) + '\t';
    const auto line = [&](std::string_view value, const Value& v) {
      return text.Line(name + std::string(value) + '\t' + std::to_string(v.key) + '\t' +
                       std::to_string(v.count));
    };
    RETURN_IF_ERROR(line(kUnseen, fields_[f].unseen));
    for (const uint64_t token : SortedTokens(fields_[f].values)) {
      RETURN_IF_ERROR(line(ValueText(f, token), fields_[f].values.at(token)));
    }
  }
  return text.Finish();
}

// Reads a vocabulary file line by line; each step of Read takes the lines it knows.
class CriteoVocabularyReader {
 public:
  CriteoVocabularyReader(const std::string& path, RecordReader reader)
      : path_(path), reader_(std::move(reader)) {}

  Result<CriteoVocabulary> Read() {
    RETURN_IF_ERROR(Next());
    if (line_ != kVersionLine) return Error(Quoted(kVersionLine));
    RETURN_IF_ERROR(Next());
    RETURN_IF_ERROR(ReadHeader());
    RETURN_IF_ERROR(Next());
    if (line_ != kColumnsLine) return Error(Quoted(kColumnsLine));
    RETURN_IF_ERROR(ReadValues());
    RETURN_IF_ERROR(ReadEnd());
    vocabulary_.frozen_ = true;
    return std::move(vocabulary_);
  }

 private:
  // The next line in line_; at the end of the file an empty one that no step accepts.
  Status Next() {
    crc_before_ = crc_;
    RecordView record;
    ASSIGN_OR_RETURN(const bool more, reader_.Next(record));
    ended_ = !more;
    line_ = more ? std::string(record.bytes) : "";
    ++line_number_;
    crc_ = Crc32c(line_.data(), line_.size(), crc_);
    crc_ = Crc32c("\n", 1, crc_);
    return {};
  }

  Status Error(const std::string& expected) const {
    return Corrupt(path_ + ":" + std::to_string(line_number_) + ": expected " + expected +
                   ", found " + (ended_ ? "the end of the file" : Quoted(line_)));
  }

  Status ReadHeader() {
    unsigned long long num_features = 0, min_count = 0;
    if (std::sscanf(line_.c_str(), "# num_features %20llu min_count %20llu", &num_features,
                    &min_count) != 2 ||
        line_ != HeaderLine(num_features, min_count)) {
      return Error("\"# num_features N min_count N\"");
    }
    vocabulary_.num_features_ = num_features;
    vocabulary_.min_count_ = min_count;
    return {};
  }

  // field, value, key and count of line_.
  bool SplitValueLine(std::string_view (&parts)[4]) const {
    std::string_view rest = line_;
    for (int i = 0; i < 3; ++i) {
      const size_t tab = rest.find('\t');
      if (tab == rest.npos) return false;
      parts[i] = rest.substr(0, tab);
      rest.remove_prefix(tab + 1);
    }
    parts[3] = rest;
    return true;
  }

  Status ReadValues() {
    RETURN_IF_ERROR(Next());
    for (int f = 0; f < kCriteoFields; ++f) {
      RETURN_IF_ERROR(ReadField(f));
    }
    if (keys_.size() != vocabulary_.num_features_) {
      return Error(std::to_string(vocabulary_.num_features_) + " values as the header says");
    }
    std::sort(keys_.begin(), keys_.end());
    const auto twice = std::adjacent_find(keys_.begin(), keys_.end());
    if (twice == keys_.end()) return {};
    return Corrupt(path_ + ": expected each key below " +
                   std::to_string(vocabulary_.num_features_) + " once, found " +
                   std::to_string(*twice) + " twice");
  }

  Status ReadField(int f) {
    const std::string name = CriteoFieldName(f);
    CriteoVocabulary::Field& field = vocabulary_.fields_[f];
    bool first = true;
    uint64_t least = 0;  // tokens ascend
    for (std::string_view parts[4]; first || line_.starts_with(name + "\t"); first = false) {
      CriteoVocabulary::Value value;
      uint64_t token = 0;
      if (!SplitValueLine(parts) || parts[0] != name || !ParseWhole(parts[2], 10, value.key) ||
          value.key >= vocabulary_.num_features_ || !ParseWhole(parts[3], 10, value.count) ||
          (first ? parts[1] != kUnseen : !ValueToken(f, parts[1], token) || token < least)) {
        return Error("field " + name + (first ? ", value *" : ", a value above the one before") +
                     ", a key below " + std::to_string(vocabulary_.num_features_) + " and a count");
      }
      keys_.push_back(value.key);
      if (first) {
        field.unseen = value;
      } else {
        field.values.emplace(token, value);
        least = token + 1;
      }
      RETURN_IF_ERROR(Next());
    }
    return {};
  }

  Status ReadEnd() {
    if (line_ != CrcLine(crc_before_)) return Error(Quoted(CrcLine(crc_before_)));
    RETURN_IF_ERROR(Next());
    if (!ended_) return Error("the end of the file");
    return {};
  }

  std::string path_;
  RecordReader reader_;
  CriteoVocabulary vocabulary_;
  std::string line_;
  uint64_t line_number_ = 0;
  std::vector<uint64_t> keys_;  // of all values so far
  uint32_t crc_ = 0;            // of all lines so far
  uint32_t crc_before_ = 0;     // without line_
  bool ended_ = false;
};

Result<CriteoVocabulary> CriteoVocabulary::Load(const std::string& path) {
  const BlockOptions options = {.framing = Framing::kLines,
                                .max_record_bytes = kMaxCriteoVocabularyLine,
                                .regular_file = true};
  ASSIGN_OR_RETURN(RecordReader reader, RecordReader::Open(path, options));
  return CriteoVocabularyReader(path, std::move(reader)).Read();
}

}  // namespace millrace::io
