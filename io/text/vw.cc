// SPDX-License-Identifier: Apache-2.0
#include "io/text/vw.h"

#include <charconv>
#include <cmath>
#include <iterator>
#include <string>

#include "io/base/string_hash.h"
#include "io/text/line_cursor.h"

namespace millrace::io {
namespace {

bool IsDelimiter(char c) { return LineCursor::IsBlank(c) || c == '|'; }

const char* FindDelimiter(const char* p, const char* end) {
  while (p != end && !IsDelimiter(*p)) ++p;
  return p;
}

// A number that fills [begin, end) wholly.
bool ParseWholeFloat(const char* begin, const char* end, float& out) {
  return begin != end && ParseFloat(begin, end, out) == end;
}

std::string QuotedRange(const char* begin, const char* end) {
  return begin == end ? "nothing" : Quoted({begin, static_cast<size_t>(end - begin)});
}

// The words before the first '|': label, importance, base, tag. The cursor ends up at the '|'.
Status ParseHead(LineCursor& cursor, Labels labels, SparseRow& row) {
  const char* bar = cursor.p();
  while (bar != cursor.end() && *bar != '|') ++bar;
  if (bar == cursor.end()) return cursor.Error(bar, "'|' before the features", "the end of line");

  static constexpr const char* kExpected[] = {"a finite number as label",
                                              "a finite importance of 0 or more", "a base of 0"};
  float base = 0;
  float* const targets[] = {&row.label, &row.weight, &base};
  size_t numbers = 0;
  bool tagged = false;
  while (cursor.SkipBlanks(), cursor.p() != bar) {
    const char* word = cursor.p();
    const char* end = FindDelimiter(word, bar);
    cursor.MoveTo(end);
    if (tagged) return cursor.Error(word, "'|' after the tag", QuotedRange(word, end));
    if (end == bar || *word == '\'') {
      tagged = true;
      continue;
    }
    if (numbers == std::size(targets)) {
      return cursor.Error(word, "a tag or '|' after label, importance and base",
                          QuotedRange(word, end));
    }
    if (!ParseWholeFloat(word, end, *targets[numbers]) || row.weight < 0 || base != 0) {
      return cursor.Error(word, kExpected[numbers], QuotedRange(word, end));
    }
    ++numbers;
  }
  if (numbers > 0) return {};
  row.label = kNoLabel;
  if (labels == Labels::kOptional) return {};
  return cursor.Error(bar, "a label and a blank before '|'", tagged ? "only a tag" : "none");
}

// VW's keys have at most 32 bits.
bool HasVwKeys(const VwOptions& options) {
  return options.hash_bits >= 1 && options.hash_bits <= 32;
}

uint64_t HashName(std::string_view name, uint64_t seed, const VwOptions& options) {
  return HasVwKeys(options) ? Murmur3(name, static_cast<uint32_t>(seed)) : HashString(name, seed);
}

struct Namespace {
  uint64_t hash = 0;
  float scale = 1;
};

// At a '|'; moves past the namespace's name.
Status ParseNamespace(LineCursor& cursor, const VwOptions& options, Namespace& space) {
  const char* name = cursor.p() + 1;
  const char* end = FindDelimiter(name, cursor.end());
  const char* colon = name;
  while (colon != end && *colon != ':') ++colon;
  space.hash = HashName({name, static_cast<size_t>(colon - name)}, 0, options);
  space.scale = 1;
  if (colon != end && !ParseWholeFloat(colon + 1, end, space.scale)) {
    return cursor.Error(colon + 1, "a finite scale of the namespace", QuotedRange(colon + 1, end));
  }
  cursor.MoveTo(end);
  return {};
}

uint64_t FeatureKey(std::string_view name, const Namespace& space, const VwOptions& options) {
  if (!options.hash_all) {
    uint64_t number = 0;
    const auto [stop, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error == std::errc() && stop == name.data() + name.size()) {
      return MaskKey(number, options.hash_bits);
    }
  }
  return MaskKey(HashName(name, space.hash, options), options.hash_bits);
}

Status ParseFeature(LineCursor& cursor, const Namespace& space, const VwOptions& options,
                    SparseRow& row) {
  const char* name = cursor.p();
  const char* colon = name;
  while (colon != cursor.end() && !IsDelimiter(*colon) && *colon != ':') ++colon;
  if (colon == name) return cursor.WordError(name, "a feature name before ':'");
  const char* end = colon;
  float value = 1;
  if (colon != cursor.end() && *colon == ':') {
    end = FindDelimiter(colon + 1, cursor.end());
    if (!ParseWholeFloat(colon + 1, end, value)) {
      return cursor.Error(colon + 1, "a finite value", QuotedRange(colon + 1, end));
    }
  }
  value *= space.scale;
  if (!std::isfinite(value)) {
    return cursor.Error(colon, "a value that stays finite when scaled", QuotedRange(name, end));
  }
  row.Add(FeatureKey({name, static_cast<size_t>(colon - name)}, space, options), value);
  cursor.MoveTo(end);
  return {};
}

}  // namespace

Result<bool> ParseVwLine(std::string_view line, const VwOptions& options, SparseRow& row) {
  row.Clear();
  LineCursor cursor(line);
  cursor.SkipBlanks();
  if (cursor.AtEnd() || *cursor.p() == '#') return false;
  RETURN_IF_ERROR(ParseHead(cursor, options.labels, row));
  Namespace space;
  while (!cursor.AtEnd()) {
    if (*cursor.p() == '|') {
      RETURN_IF_ERROR(ParseNamespace(cursor, options, space));
    } else {
      RETURN_IF_ERROR(ParseFeature(cursor, space, options, row));
    }
    cursor.SkipBlanks();
  }
  return true;
}

}  // namespace millrace::io
