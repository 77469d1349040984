// SPDX-License-Identifier: Apache-2.0
#include "io/text/vw.h"

#include <algorithm>
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

struct Head {
  float label = kNoLabel;
  float weight = 1;
  std::string_view label_text = {}, tag = {};  // empty: none
};

// The words before the first '|': label, importance, base, tag. The cursor ends up at the '|'.
Status ParseHead(LineCursor& cursor, Labels labels, Head& head) {
  const char* bar = cursor.p();
  while (bar != cursor.end() && *bar != '|') ++bar;
  if (bar == cursor.end()) return cursor.Error(bar, "'|' before the features", "the end of line");

  static constexpr const char* kExpected[] = {"a finite number as label",
                                              "a finite importance of 0 or more", "a base of 0"};
  float base = 0;
  float* const targets[] = {&head.label, &head.weight, &base};
  size_t numbers = 0;
  bool tagged = false;
  while (cursor.SkipBlanks(), cursor.p() != bar) {
    const char* word = cursor.p();
    const char* end = FindDelimiter(word, bar);
    cursor.MoveTo(end);
    if (tagged) return cursor.Error(word, "'|' after the tag", QuotedRange(word, end));
    if (end == bar || *word == '\'') {
      tagged = true;
      head.tag = {word, static_cast<size_t>(end - word)};
      continue;
    }
    if (numbers == std::size(targets)) {
      return cursor.Error(word, "a tag or '|' after label, importance and base",
                          QuotedRange(word, end));
    }
    if (!ParseWholeFloat(word, end, *targets[numbers]) || head.weight < 0 || base != 0) {
      return cursor.Error(word, kExpected[numbers], QuotedRange(word, end));
    }
    if (numbers == 0) head.label_text = {word, static_cast<size_t>(end - word)};
    ++numbers;
  }
  if (numbers > 0) return {};
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
  std::string_view name = {};
  uint64_t hash = 0;
  float scale = 1;
};

// At a '|'; moves past the namespace's name. Leaves the hash unchanged.
Status ParseNamespace(LineCursor& cursor, Namespace& space) {
  const char* name = cursor.p() + 1;
  const char* end = FindDelimiter(name, cursor.end());
  const char* colon = name;
  while (colon != end && *colon != ':') ++colon;
  space.name = {name, static_cast<size_t>(colon - name)};
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

struct Feature {
  std::string_view name = {};
  float value = 1;  // times the scale of its namespace
};

Status ParseFeature(LineCursor& cursor, float scale, Feature& feature) {
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
  value *= scale;
  if (!std::isfinite(value)) {
    return cursor.Error(colon, "a value that stays finite when scaled", QuotedRange(name, end));
  }
  feature = {{name, static_cast<size_t>(colon - name)}, value};
  cursor.MoveTo(end);
  return {};
}

// Calls on_head(head), on_namespace(space) and on_feature(space, feature) for the parts of a line
// in their order. False for a blank line or a comment.
template <typename OnHead, typename OnNamespace, typename OnFeature>
Result<bool> VisitLine(std::string_view line, Labels labels, const OnHead& on_head,
                       const OnNamespace& on_namespace, const OnFeature& on_feature) {
  LineCursor cursor(line);
  cursor.SkipBlanks();
  if (cursor.AtEnd() || *cursor.p() == '#') return false;
  Head head;
  RETURN_IF_ERROR(ParseHead(cursor, labels, head));
  on_head(head);
  Namespace space;
  Feature feature;
  while (!cursor.AtEnd()) {
    if (*cursor.p() == '|') {
      RETURN_IF_ERROR(ParseNamespace(cursor, space));
      on_namespace(space);
    } else {
      RETURN_IF_ERROR(ParseFeature(cursor, space.scale, feature));
      on_feature(space, feature);
    }
    cursor.SkipBlanks();
  }
  return true;
}

constexpr std::string_view kHeadColumns[] = {"label", "weight", "tag"};

// The column of a namespace that is not called like one of the head's.
std::string ColumnOf(std::string_view space) {
  const bool is_taken =
      std::find(std::begin(kHeadColumns), std::end(kHeadColumns), space) != std::end(kHeadColumns);
  return (is_taken || space.empty() ? "|" : "") + std::string(space);
}

}  // namespace

Result<bool> ParseVwLine(std::string_view line, const VwOptions& options, SparseRow& row) {
  row.Clear();
  return VisitLine(
      line, options.labels,
      [&](const Head& head) {
        row.label = head.label;
        row.weight = head.weight;
      },
      [&](Namespace& space) { space.hash = HashName(space.name, 0, options); },
      [&](const Namespace& space, const Feature& feature) {
        row.Add(FeatureKey(feature.name, space, options), feature.value);
      });
}

VwColumns::VwColumns(const std::vector<std::string>& wanted) : columns_(wanted.size()) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto column = static_cast<uint32_t>(i);
    const auto head = std::find(std::begin(kHeadColumns), std::end(kHeadColumns), wanted[i]);
    if (head != std::end(kHeadColumns)) {
      head_[head - std::begin(kHeadColumns)].push_back(column);
    } else {
      const bool has_bar = wanted[i].starts_with('|');
      spaces_[wanted[i].substr(has_bar ? 1 : 0)].push_back(column);
    }
  }
}

Result<bool> VwColumns::Read(std::string_view record, FieldRow& row) {
  row.Clear(columns_);
  cells_.clear();
  const std::vector<uint32_t>* columns = &no_columns_;
  const auto on_head = [&](const Head& head) {
    for (const uint32_t column : head_[0]) cells_.push_back({column, head.label_text, 1});
    for (const uint32_t column : head_[1]) {
      const char* const end =
          std::to_chars(weight_text_, weight_text_ + sizeof weight_text_, head.weight).ptr;
      const auto size = static_cast<size_t>(end - weight_text_);
      cells_.push_back({column, {weight_text_, size}, 1});
    }
    for (const uint32_t column : head_[2]) {
      cells_.push_back({column, head.tag.substr(head.tag.starts_with('\'') ? 1 : 0), 1});
    }
  };
  ASSIGN_OR_RETURN(const bool is_row,
                   VisitLine(
                       record, Labels::kOptional, on_head,
                       [&](const Namespace& space) {
                         const auto found = spaces_.find(space.name);
                         columns = found == spaces_.end() ? &no_columns_ : &found->second;
                       },
                       [&](const Namespace&, const Feature& feature) {
                         for (const uint32_t column : *columns) {
                           cells_.push_back({column, feature.name, feature.value});
                         }
                       }));
  if (!is_row) return false;
  // A namespace may come more than once in a line.
  const auto is_before = [](const Cell& a, const Cell& b) { return a.column < b.column; };
  if (!std::is_sorted(cells_.begin(), cells_.end(), is_before)) {
    std::stable_sort(cells_.begin(), cells_.end(), is_before);
  }
  for (size_t i = 0; i < cells_.size(); ++i) {
    if (i == 0 || cells_[i].column != cells_[i - 1].column) row.Begin(cells_[i].column);
    row.AddText(cells_[i].text, cells_[i].weight);
  }
  return true;
}

Result<std::vector<std::string>> VwColumnNames(std::string_view record) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  ASSIGN_OR_RETURN(const bool is_row,
                   VisitLine(
                       record, Labels::kOptional,
                       [&](const Head& head) {
                         if (!head.label_text.empty()) add("label");
                         if (head.weight != 1) add("weight");
                       },
                       [](const Namespace&) {},
                       [&](const Namespace& space, const Feature&) { add(ColumnOf(space.name)); }));
  if (!is_row) names.clear();
  return names;
}

}  // namespace millrace::io
