// SPDX-License-Identifier: Apache-2.0
#include "io/example/example_columns.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "io/base/string_hash.h"

namespace millrace::io {
namespace {

constexpr uint32_t kFirst = WireTag(1, WireType::kBytes);   // features, entry, key, bytes_list
constexpr uint32_t kSecond = WireTag(2, WireType::kBytes);  // value, float_list
constexpr uint32_t kThird = WireTag(3, WireType::kBytes);   // int64_list

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

bool ReadList(uint32_t tag, WireReader& list, FieldRow& row) {
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

}  // namespace

ExampleColumns::ExampleColumns(const std::vector<std::string>& columns) : names_(columns) {
  mask_ = std::bit_ceil(4 * names_.size() + 1) - 1;
  slots_.resize(mask_ + 1);
  for (size_t i = 0; i < names_.size(); ++i) {
    Slot slot = SlotOf(names_[i]);
    slot.column = i;
    size_t at = PositionOf(slot);
    while (slots_[at].column != kUnused) at = (at + 1) & mask_;
    slots_[at] = slot;
  }
}

inline ExampleColumns::Slot ExampleColumns::SlotOf(std::string_view name) {
  const size_t size = name.size();
  return {.head = LoadWord(name.data(), std::min<size_t>(size, 8)),
          .tail = size > 8 ? LoadWord(name.data() + size - 8, 8) : 0,
          .size = size};
}

inline size_t ExampleColumns::PositionOf(const Slot& slot) const {
  return (((slot.head ^ std::rotl(slot.tail, 25)) * kHashGolden + slot.size) >> 40) & mask_;
}

inline size_t ExampleColumns::ColumnOf(std::string_view name) const {
  const Slot wanted = SlotOf(name);
  for (size_t at = PositionOf(wanted); slots_[at].column != kUnused; at = (at + 1) & mask_) {
    const Slot& slot = slots_[at];
    if (slot.head != wanted.head || slot.tail != wanted.tail || slot.size != wanted.size) continue;
    if (name.size() <= 16 || names_[slot.column] == name) return slot.column;
  }
  return kUnused;
}

// An entry whose lengths all have one byte: most are. False leaves `features` where it is.
//
//   0a len 0a len name 12 len | 0a/12/1a len | 0a len value, or a list of other values
bool ExampleColumns::ReadShortEntry(WireReader& features, FieldRow& row) const {
  const auto* p = reinterpret_cast<const uint8_t*>(features.p);
  const size_t left = features.left();
  if (left < 4 || p[0] != kFirst || p[1] >= 0x80 || p[2] != kFirst || p[3] >= 0x80) return false;
  const size_t size = 2 + p[1], value = 4 + p[3];  // offsets from p
  if (size > left || value + 4 > size) return false;
  if (p[value] != kSecond || p[value + 1] + value + 2 != size) return false;
  if (p[value + 3] + value + 4 != size) return false;
  const size_t column = ColumnOf({features.p + 4, p[3]});
  if (column != kUnused) {
    row.Begin(column);
    WireReader list(std::string_view(features.p + value + 4, size - value - 4));
    if (!ReadList(p[value + 2], list, row)) return false;
  }
  features.p += size;
  return true;
}

bool ExampleColumns::ReadEntry(WireReader& features, FieldRow& row) const {
  std::string_view bytes, name, value;
  if (!Take(features, kFirst) || !features.ReadBytes(bytes)) return false;
  WireReader entry(bytes);
  if (!Take(entry, kFirst) || !entry.ReadBytes(name) || !Take(entry, kSecond) ||
      !entry.ReadBytes(value) || !entry.AtEnd()) {
    return false;
  }
  const size_t column = ColumnOf(name);
  if (column == kUnused) return true;
  row.Begin(column);
  if (value.empty()) return true;
  WireReader feature(value);
  uint32_t tag = 0;
  std::string_view list;
  if (!feature.ReadTag(tag) || !feature.ReadBytes(list) || !feature.AtEnd()) return false;
  WireReader values(list);
  return ReadList(tag, values, row);
}

bool ExampleColumns::ReadFast(std::string_view record, FieldRow& row) const {
  WireReader example(record);
  std::string_view bytes;
  if (!Take(example, kFirst) || !example.ReadBytes(bytes)) return false;
  if (!example.AtEnd()) {  // the feature lists of a SequenceExample
    std::string_view lists;
    if (!Take(example, kSecond) || !example.ReadBytes(lists) || !example.AtEnd()) return false;
  }
  WireReader features(bytes);
  while (!features.AtEnd()) {
    if (!ReadShortEntry(features, row) && !ReadEntry(features, row)) return false;
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
