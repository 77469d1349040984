// SPDX-License-Identifier: Apache-2.0
#include "io/example/example_columns.h"

#include <cstring>

namespace millrace::io {
namespace {

constexpr uint32_t kFirst = WireTag(1, WireType::kBytes);   // features, entry, key, bytes_list
constexpr uint32_t kSecond = WireTag(2, WireType::kBytes);  // value, float_list
constexpr uint32_t kThird = WireTag(3, WireType::kBytes);   // int64_list
constexpr size_t kMaxGuesses = 4096;

bool Take(WireReader& reader, uint32_t expected) {
  uint32_t tag = 0;
  return reader.ReadTag(tag) && tag == expected;
}

bool ReadTexts(WireReader& list, FieldRow& row) {
  while (!list.AtEnd()) {
    std::string_view text;
    if (!Take(list, kFirst) || !list.ReadBytes(text)) return false;
    row.AddText(text);
  }
  return true;
}

// One packed list.
bool ReadFloats(WireReader& list, FieldRow& row) {
  std::string_view bytes;
  if (list.AtEnd()) return true;
  if (!Take(list, kFirst) || !list.ReadBytes(bytes) || !list.AtEnd() || bytes.size() % 4 != 0) {
    return false;
  }
  for (size_t at = 0; at < bytes.size(); at += 4) {
    float number;
    std::memcpy(&number, bytes.data() + at, 4);
    row.AddFloat(number);
  }
  return true;
}

bool ReadInts(WireReader& list, FieldRow& row) {
  std::string_view bytes;
  if (list.AtEnd()) return true;
  if (!Take(list, kFirst) || !list.ReadBytes(bytes) || !list.AtEnd()) return false;
  WireReader packed(bytes);
  while (!packed.AtEnd()) {
    uint64_t number = 0;
    if (!packed.ReadVarint(number)) return false;
    row.AddInt(static_cast<int64_t>(number));
  }
  return true;
}

}  // namespace

ExampleColumns::ExampleColumns(const std::vector<std::string>& columns) : names_(columns) {
  for (size_t i = 0; i < names_.size(); ++i) numbers_.emplace(names_[i], i);
}

size_t ExampleColumns::ColumnOf(std::string_view name, size_t position) {
  if (position < guesses_.size() && guesses_[position].name == name) {
    return guesses_[position].column;
  }
  const auto found = numbers_.find(name);
  const size_t column = found == numbers_.end() ? kUnused : found->second;
  if (position >= kMaxGuesses) return column;
  if (position >= guesses_.size()) guesses_.resize(position + 1);
  guesses_[position] = {std::string(name), column};
  return column;
}

bool ExampleColumns::ReadFeature(WireReader& feature, FieldRow& row) {
  if (feature.AtEnd()) return true;
  uint32_t tag = 0;
  std::string_view bytes;
  if (!feature.ReadTag(tag) || !feature.ReadBytes(bytes) || !feature.AtEnd()) return false;
  WireReader list(bytes);
  switch (tag) {
    case kFirst:
      return ReadTexts(list, row);
    case kSecond:
      return ReadFloats(list, row);
    case kThird:
      return ReadInts(list, row);
    default:
      return false;
  }
}

bool ExampleColumns::ReadEntry(WireReader& features, size_t position, FieldRow& row) {
  std::string_view bytes, name, value;
  if (!Take(features, kFirst) || !features.ReadBytes(bytes)) return false;
  WireReader entry(bytes);
  if (!Take(entry, kFirst) || !entry.ReadBytes(name) || !Take(entry, kSecond) ||
      !entry.ReadBytes(value) || !entry.AtEnd()) {
    return false;
  }
  const size_t column = ColumnOf(name, position);
  if (column == kUnused) return true;
  row.Begin(column);
  WireReader feature(value);
  return ReadFeature(feature, row);
}

bool ExampleColumns::ReadFast(std::string_view record, FieldRow& row) {
  WireReader example(record);
  std::string_view bytes;
  if (!Take(example, kFirst) || !example.ReadBytes(bytes)) return false;
  if (!example.AtEnd()) {  // the feature lists of a SequenceExample
    std::string_view lists;
    if (!Take(example, kSecond) || !example.ReadBytes(lists) || !example.AtEnd()) return false;
  }
  WireReader features(bytes);
  for (size_t position = 0; !features.AtEnd(); ++position) {
    if (!ReadEntry(features, position, row)) return false;
  }
  return true;
}

Status ExampleColumns::ReadGeneral(std::string_view record, FieldRow& row) {
  RETURN_IF_ERROR(ParseExample(record, view_));
  row.Clear(names_.size());
  for (size_t i = 0; i < names_.size(); ++i) {
    const FeatureView* feature = view_.Find(names_[i]);
    if (!feature) continue;
    row.Begin(i);
    for (const std::string_view text : feature->bytes) row.AddText(text);
    for (const float number : feature->floats) row.AddFloat(number);
    for (const int64_t number : feature->ints) row.AddInt(number);
  }
  return {};
}

Result<bool> ExampleColumns::Read(std::string_view record, FieldRow& row) {
  row.Clear(names_.size());
  if (ReadFast(record, row)) return true;
  RETURN_IF_ERROR(ReadGeneral(record, row));
  return true;
}

}  // namespace millrace::io
