// SPDX-License-Identifier: Apache-2.0
#include "io/text/libsvm.h"

#include <charconv>
#include <cstring>
#include <string>

namespace millrace::io {
namespace {

Status LabelError(const LineCursor& cursor) {
  const std::string_view word = cursor.WordAt(cursor.p());
  if (word.find(',') != word.npos) {
    return cursor.Error(cursor.p(), "one label", "several: " + Quoted(word));
  }
  if (word.find(':') != word.npos) {
    return cursor.Error(cursor.p(), "a label before the features", Quoted(word));
  }
  return cursor.WordError(cursor.p(), "a finite number as label");
}

Status ParseLabel(LineCursor& cursor, Labels labels, float& label) {
  const char* stop = ParseFloat(cursor.p(), cursor.end(), label);
  if (stop == nullptr || (stop != cursor.end() && !LineCursor::IsBlank(*stop))) {
    const bool is_feature = cursor.WordAt(cursor.p()).find(':') != std::string_view::npos;
    if (labels == Labels::kRequired || !is_feature) return LabelError(cursor);
    label = kNoLabel;
    return {};
  }
  cursor.MoveTo(stop);
  return {};
}

Status SkipQueryId(LineCursor& cursor) {
  constexpr std::string_view kPrefix = "qid:";
  if (!cursor.rest().starts_with(kPrefix)) return {};
  const char* digits = cursor.p() + kPrefix.size();
  uint64_t id = 0;
  const auto [stop, error] = std::from_chars(digits, cursor.end(), id);
  if (error != std::errc() || (stop != cursor.end() && !LineCursor::IsBlank(*stop))) {
    return cursor.WordError(digits, "a query number after qid:");
  }
  cursor.MoveTo(stop);
  cursor.SkipBlanks();
  return {};
}

Status IndexError(const LineCursor& cursor, std::errc error, const char* stop) {
  if (error == std::errc::result_out_of_range) {
    return cursor.WordError(cursor.p(), "an index of at most 64 bits");
  }
  if (error == std::errc() && (stop == cursor.end() || LineCursor::IsBlank(*stop))) {
    return cursor.WordError(cursor.p(), "index:value");
  }
  return cursor.WordError(cursor.p(), "an index (0 or more)");
}

Status OrderError(const LineCursor& cursor, uint64_t previous, uint64_t index) {
  return cursor.Error(cursor.p(), "an index above " + std::to_string(previous) + " (they ascend)",
                      std::to_string(index) + (index == previous ? " again" : ""));
}

Status ParseFeatures(LineCursor& cursor, uint64_t index_base, SparseRow& row) {
  uint64_t least = index_base;  // the smallest valid next index
  bool exhausted = false;       // 2^64-1 was read: no index can follow
  while (!cursor.AtEnd()) {
    uint64_t index = 0;
    const auto [colon, error] = std::from_chars(cursor.p(), cursor.end(), index);
    if (error != std::errc() || colon == cursor.end() || *colon != ':') {
      return IndexError(cursor, error, colon);
    }
    if (index < least || exhausted) {
      if (row.keys.empty()) {
        return cursor.Error(cursor.p(), "an index from " + std::to_string(index_base) + " on",
                            std::to_string(index));
      }
      return OrderError(cursor, row.keys.back() + index_base, index);
    }
    float value = 0;
    const char* stop = ParseFloat(colon + 1, cursor.end(), value);
    if (stop == nullptr || (stop != cursor.end() && !LineCursor::IsBlank(*stop))) {
      return cursor.WordError(colon + 1, "a finite value after index " + std::to_string(index));
    }
    row.Add(index - index_base, value);
    exhausted = index == UINT64_MAX;
    least = index + 1;
    cursor.MoveTo(stop);
    cursor.SkipBlanks();
  }
  return {};
}

}  // namespace

Result<bool> ParseLibsvmLabel(LineCursor& cursor, Labels labels, float& label) {
  if (!cursor.AtEnd()) {
    const void* comment = std::memchr(cursor.p(), '#', cursor.rest().size());
    if (comment != nullptr) cursor.CutAt(static_cast<const char*>(comment));
  }
  cursor.SkipBlanks();
  if (cursor.AtEnd()) return false;
  RETURN_IF_ERROR(ParseLabel(cursor, labels, label));
  cursor.SkipBlanks();
  return true;
}

Result<bool> ParseLibsvmLine(std::string_view line, const LibsvmOptions& options, SparseRow& row) {
  row.Clear();
  LineCursor cursor(line);
  ASSIGN_OR_RETURN(const bool found, ParseLibsvmLabel(cursor, options.labels, row.label));
  if (!found) return false;
  RETURN_IF_ERROR(SkipQueryId(cursor));
  RETURN_IF_ERROR(ParseFeatures(cursor, static_cast<uint64_t>(options.index_base), row));
  return true;
}

}  // namespace millrace::io
