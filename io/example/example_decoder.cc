// SPDX-License-Identifier: Apache-2.0
#include "io/example/example_decoder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

namespace millrace::io {
namespace {

constexpr char kLengthDelimited1 = 0x0a;  // field 1: features, map entry, key, bytes list, values
constexpr char kLengthDelimited2 = 0x12;  // field 2: map value, float list
constexpr char kLengthDelimited3 = 0x1a;  // field 3: int64 list

constexpr auto kOnes = [] {
  std::array<float, 1024> ones{};
  ones.fill(1.0f);
  return ones;
}();

bool AllOnes(std::string_view floats) {
  constexpr size_t kChunk = sizeof kOnes;
  for (; floats.size() > kChunk; floats.remove_prefix(kChunk)) {
    if (std::memcmp(floats.data(), kOnes.data(), kChunk) != 0) return false;
  }
  return std::memcmp(floats.data(), kOnes.data(), floats.size()) == 0;
}

bool AllFinite(const float* values, size_t count) {
  uint32_t bad = 0;
  for (size_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, values + i, sizeof bits);
    bad |= (bits & 0x7f800000u) == 0x7f800000u;
  }
  return bad == 0;
}

// A field of one tag byte and a length of at most three bytes that lies within [p, end). Moves p
// past the length.
inline bool OpenField(char tag, const char*& p, const char* end, std::string_view& field) {
  if (end - p < 2 || *p != tag) return false;
  const auto byte = [&](int i) { return static_cast<size_t>(static_cast<unsigned char>(p[i])); };
  size_t size = byte(1);
  const char* begin = p + 2;
  if (size >= 0x80) {
    size = (size & 0x7f) | (byte(2) << 7);
    begin = p + 3;
    if (size >= 0x80 << 7) {
      size = (size & 0x3fff) | (byte(3) << 14);
      begin = p + 4;
      if (size >= 0x80 << 14) return false;
    }
  }
  if (begin > end || size > static_cast<size_t>(end - begin)) return false;
  field = {begin, size};
  p = begin + size;
  return true;
}

// `bytes` is exactly one such field.
inline bool OnlyField(char tag, std::string_view bytes, std::string_view& field) {
  const char* p = bytes.data();
  return OpenField(tag, p, bytes.data() + bytes.size(), field) && p == bytes.data() + bytes.size();
}

// The packed values of a list that has nothing else; an empty list has none.
inline bool PackedValues(std::string_view list, std::string_view& values) {
  values = list;
  return list.empty() || OnlyField(kLengthDelimited1, list, values);
}

bool PlainAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

bool EveryVarintEnds(std::string_view list) {
  size_t run = 0;
  for (const char c : list) {
    if (static_cast<unsigned char>(c) < 0x80) {
      run = 0;
    } else if (++run == 10) {
      return false;
    }
  }
  return run == 0;
}

bool EveryByteStringEnds(std::string_view list) {
  const char* p = list.data();
  const char* end = p + list.size();
  std::string_view ignored;
  while (p < end) {
    if (!OpenField(kLengthDelimited1, p, end, ignored)) return false;
  }
  return true;
}

// Other features must be well formed, too: protobuf would reject the record otherwise.
bool IsCanonicalFeature(std::string_view feature) {
  std::string_view list, values;
  if (OnlyField(kLengthDelimited1, feature, list)) return EveryByteStringEnds(list);
  if (OnlyField(kLengthDelimited2, feature, list))
    return PackedValues(list, values) && values.size() % 4 == 0;
  return OnlyField(kLengthDelimited3, feature, list) && PackedValues(list, values) &&
         EveryVarintEnds(values);
}

std::string Quoted(std::string_view name) { return "'" + std::string(name) + "'"; }

// A missing feature may have another name.
std::string Describe(const FeatureView* feature, const ExampleView& view) {
  return feature ? DescribeFeature(*feature)
                 : "no such feature; the record has " + ListFeatures(view);
}

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

Result<float> LabelOf(const ExampleView& view, const ExampleDecoderOptions& options) {
  const std::string& name = options.names.label;
  const FeatureView* feature = view.Find(name);
  if (!feature && options.labels == Labels::kOptional) return kNoLabel;
  const bool is_int = feature && feature->kind == FeatureKind::kInt64;
  const bool is_float = feature && feature->kind == FeatureKind::kFloat;
  if ((!is_int && !is_float) || feature->size() != 1) {
    return Corrupt("label feature " + Quoted(name) + ": expected one int64 or float, found " +
                   Describe(feature, view));
  }
  const double label = is_int ? static_cast<double>(feature->ints[0]) : feature->floats[0];
  if (options.positive_label && !std::isnan(label)) return label == *options.positive_label;
  if (label == 1) return 1.0f;
  if (label == 0 || label == -1) return 0.0f;
  return Corrupt(
      "label feature " + Quoted(name) + ": expected 0, 1 or -1, found " +
      (is_int ? std::to_string(feature->ints[0]) : Number(label)) +
      (std::isnan(label) ? "" : " (the option positive_label makes two classes of many)"));
}

Result<float> WeightOf(const FeatureView* feature, std::string_view name) {
  if (!feature) return 1.0f;
  if (feature->kind != FeatureKind::kFloat || feature->floats.size() != 1) {
    return Corrupt("weight feature " + Quoted(name) + ": expected one float, found " +
                   DescribeFeature(*feature) + " (the option weight_feature names another one)");
  }
  const float weight = feature->floats[0];
  if (std::isfinite(weight) && weight >= 0) return weight;
  return Corrupt("weight feature " + Quoted(name) +
                 ": expected a finite number of at least 0, found " + Number(weight));
}

// Null for all ones.
Result<const float*> ValuesOf(const FeatureView* feature, std::string_view name, size_t count) {
  if (!feature || feature->kind == FeatureKind::kNone) return static_cast<const float*>(nullptr);
  if (feature->kind != FeatureKind::kFloat || feature->floats.size() != count) {
    return Corrupt("value feature " + Quoted(name) + ": expected " + std::to_string(count) +
                   " float values, as many as there are indices, found " +
                   DescribeFeature(*feature));
  }
  const float* values = feature->floats.data();
  for (size_t i = 0; i < count; ++i) {
    if (std::isfinite(values[i])) continue;
    return Corrupt("value feature " + Quoted(name) + ": expected finite numbers, found " +
                   Number(values[i]) + " at position " + std::to_string(i));
  }
  if (std::all_of(values, values + count, [](float v) { return v == 1.0f; })) values = nullptr;
  return values;
}

}  // namespace

std::string TooFewFeatures(uint64_t key) {
  return "; a model with this index needs num_features=" + std::to_string(key + 1) + " or more";
}

const char kReservedKeyText[] =
    "expected any 64-bit key but 18446744073709551615 (-1), which is reserved for the intercept, "
    "found it";

std::string FieldRange(size_t num_fields) {
  return "expected fields from 0 to below num_fields = " + std::to_string(num_fields) + ", found ";
}

struct ExampleDecoder::Parts {
  struct List {
    bool seen = false;
    bool is_float = false;
    std::string_view values;  // packed
  };
  List label, index, value, weight, field;
};

ExampleDecoder::Name::Name(std::string_view name) : text(name) {
  std::memcpy(&head, name.data(), std::min<size_t>(name.size(), 8));
  head_mask = name.size() >= 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * name.size())) - 1;
}

inline bool ExampleDecoder::Name::Is(const char* key, size_t size) const {
  uint64_t word;
  std::memcpy(&word, key, 8);  // within the slack that callers promise
  return size == text.size() && (word & head_mask) == head &&
         (size <= 8 || std::memcmp(key + 8, text.data() + 8, size - 8) == 0);
}

ExampleDecoder::ExampleDecoder(ExampleDecoderOptions options, CpuLevel level)
    : options_(std::move(options)),
      label_(options_.names.label),
      index_(options_.names.index),
      value_(options_.names.value),
      weight_(options_.names.weight),
      field_(options_.num_fields > 0 ? options_.names.field : ""),
      varints32_(DecodeVarints32For(level)),
      all_fields_(options_.num_fields) {
  std::iota(all_fields_.begin(), all_fields_.end(), uint16_t{0});
}

Status ExampleDecoder::Append(std::string_view record, BatchBuilder& rows) {
  if (AppendFast(record, rows)) return {};
  return AppendGeneral(record, rows);
}

bool ExampleDecoder::AppendFast(std::string_view record, BatchBuilder& rows) {
  Parts parts;
  if (!FindParts(record, parts)) return false;
  if (!parts.index.seen || parts.index.is_float) return false;
  float label = kNoLabel;
  if (options_.positive_label) {
    if (!FastLabel(parts, label)) return false;
  } else if (parts.label.seen) {
    const std::string_view text = parts.label.values;
    if (parts.label.is_float || text.size() != 1 || static_cast<unsigned char>(text[0]) > 1)
      return false;
    label = text[0];
  } else if (options_.labels == Labels::kRequired) {
    return false;
  }
  float weight = 1;
  if (parts.weight.seen) {
    if (!parts.weight.is_float || parts.weight.values.size() != 4) return false;
    std::memcpy(&weight, parts.weight.values.data(), 4);
    if (!std::isfinite(weight) || weight < 0) return false;
  }
  size_t count = 0;
  if (!DecodeIndex(parts.index.values, rows, count)) return false;
  const uint16_t* fields = nullptr;
  if (options_.num_fields > 0) {
    if (parts.field.is_float) return false;
    if (parts.field.seen ? !DecodeFields(parts.field.values, count) : count != all_fields_.size())
      return false;
    fields = parts.field.seen ? fields_.data() : all_fields_.data();
  }
  const std::string_view floats = parts.value.values;
  const bool ones = !parts.value.seen || AllOnes(floats);
  if (parts.value.seen && (!parts.value.is_float || floats.size() != 4 * count)) return false;
  if (ones) {
    rows.FinishRow(count, label, weight, nullptr, fields);
    return true;
  }
  values_.resize(count);
  std::memcpy(values_.data(), floats.data(), floats.size());
  if (!AllFinite(values_.data(), count)) return false;
  rows.FinishRow(count, label, weight, values_.data(), fields);
  return true;
}

// One float, or one integer of a byte, against the positive label.
bool ExampleDecoder::FastLabel(const Parts& parts, float& label) const {
  const std::string_view text = parts.label.values;
  if (!parts.label.seen || text.size() != (parts.label.is_float ? 4 : 1)) return false;
  float found = 0;
  if (parts.label.is_float) {
    std::memcpy(&found, text.data(), 4);
  } else {
    found = static_cast<unsigned char>(text[0]);
  }
  label = found == *options_.positive_label;
  return !std::isnan(found) && (parts.label.is_float || found < 128);
}

// The record must be one features field; false for anything that is not canonical.
bool ExampleDecoder::FindParts(std::string_view record, Parts& parts) const {
  std::string_view features;
  if (!OnlyField(kLengthDelimited1, record, features)) return false;
  const char* p = features.data();
  const char* end = p + features.size();
  while (p < end) {
    std::string_view entry, key, feature;
    if (!OpenField(kLengthDelimited1, p, end, entry)) return false;
    const char* inside = entry.data();
    const char* entry_end = inside + entry.size();
    if (!OpenField(kLengthDelimited1, inside, entry_end, key)) return false;
    if (!OpenField(kLengthDelimited2, inside, entry_end, feature) || inside != entry_end)
      return false;
    if (!TakeFeature(key, feature, parts)) return false;
  }
  return true;
}

bool ExampleDecoder::TakeFeature(std::string_view key, std::string_view feature,
                                 Parts& parts) const {
  Parts::List* part = nullptr;
  if (index_.Is(key.data(), key.size())) {
    part = &parts.index;
  } else if (value_.Is(key.data(), key.size())) {
    part = &parts.value;
  } else if (label_.Is(key.data(), key.size())) {
    part = &parts.label;
  } else if (!weight_.text.empty() && weight_.Is(key.data(), key.size())) {
    part = &parts.weight;
  } else if (!field_.text.empty() && field_.Is(key.data(), key.size())) {
    part = &parts.field;
  } else {
    return PlainAscii(key) && IsCanonicalFeature(feature);
  }
  if (part->seen) return false;
  part->seen = true;
  std::string_view list;
  part->is_float = feature.size() > 0 && feature[0] == kLengthDelimited2;
  const char tag = part->is_float ? kLengthDelimited2 : kLengthDelimited3;
  return OnlyField(tag, feature, list) && PackedValues(list, part->values) &&
         (!part->is_float || part->values.size() % 4 == 0);
}

// Appends the indices after the last row's; false if one is malformed or too large.
bool ExampleDecoder::DecodeIndex(std::string_view list, BatchBuilder& rows, size_t& count) {
  if (wide()) {
    const auto decoded = DecodeVarints64(list, rows.WideRoom(list.size()));
    if (!decoded) return false;
    count = *decoded;
    const uint64_t* keys = rows.WideRoom(count);
    const uint64_t limit = options_.num_features > 0 ? options_.num_features : kInterceptKey;
    uint64_t largest = 0;
    for (size_t i = 0; i < count; ++i) largest = std::max(largest, keys[i]);
    return count == 0 || largest < limit;
  }
  uint32_t* room = rows.NarrowRoom(list.size() + kVarintWriteSlack);
  if (const auto decoded = varints32_(list, room)) {
    count = decoded->count;
    return count == 0 || decoded->max < options_.num_features;
  }
  keys_.resize(list.size());
  const auto decoded = DecodeVarints64(list, keys_.data());
  if (!decoded) return false;
  count = *decoded;
  for (size_t i = 0; i < count; ++i) {
    if (keys_[i] >= options_.num_features) return false;
    room[i] = static_cast<uint32_t>(keys_[i]);
  }
  return true;
}

// Fills fields_; false if one is malformed or too large, or if there are not `count`.
bool ExampleDecoder::DecodeFields(std::string_view list, size_t count) {
  varints_.resize(list.size() + kVarintWriteSlack);
  const auto decoded = varints32_(list, varints_.data());
  if (!decoded || decoded->count != count) return false;
  if (count > 0 && decoded->max >= options_.num_fields) return false;
  fields_.resize(count);
  for (size_t i = 0; i < count; ++i) fields_[i] = static_cast<uint16_t>(varints_[i]);
  return true;
}

Status ExampleDecoder::AppendGeneral(std::string_view record, BatchBuilder& rows) {
  RETURN_IF_ERROR(ParseExample(record, view_));
  const FeatureNames& names = options_.names;
  ASSIGN_OR_RETURN(const float label, LabelOf(view_, options_));
  float weight = 1;
  if (!names.weight.empty()) {
    ASSIGN_OR_RETURN(weight, WeightOf(view_.Find(names.weight), names.weight));
  }
  const FeatureView* index = view_.Find(names.index);
  RETURN_IF_ERROR(CheckIndex(index));
  ASSIGN_OR_RETURN(const float* values,
                   ValuesOf(view_.Find(names.value), names.value, index->ints.size()));
  if (options_.num_fields > 0) RETURN_IF_ERROR(TakeFields(index->ints.size()));
  keys_.resize(index->ints.size());
  std::copy(index->ints.begin(), index->ints.end(), keys_.begin());
  std::span<uint64_t> keys(keys_);
  if (options_.num_features > 0 && options_.unknown_key == UnknownKey::kLeaveOut) {
    if (values) values_.assign(values, values + keys.size());
    float* const own = values ? values_.data() : nullptr;
    keys = keys.first(rows.LeaveOutUnknown(options_.num_features, keys, own,
                                           options_.num_fields > 0 ? fields_.data() : nullptr));
    values = own;
  }
  rows.AddRow(label, weight, keys, values, options_.num_fields > 0 ? fields_.data() : nullptr);
  return {};
}

// Fills fields_ with those of a row with `count` indices.
Status ExampleDecoder::TakeFields(size_t count) {
  const std::string& name = options_.names.field;
  const std::string where = "field feature " + Quoted(name) + ": ";
  const FeatureView* feature = name.empty() ? nullptr : view_.Find(name);
  if (count > 0 && (!feature || feature->kind == FeatureKind::kNone)) {
    if (count != options_.num_fields) {
      return Corrupt("this row has no fields: expected the feature " + Quoted(name) +
                     ", or exactly one index for each of the " +
                     std::to_string(options_.num_fields) + " fields, found " +
                     std::to_string(count) + " indices");
    }
    fields_ = all_fields_;
    return {};
  }
  fields_.resize(count);
  if (!feature) return {};
  const bool is_list = feature->kind == FeatureKind::kInt64 || feature->kind == FeatureKind::kNone;
  if (!is_list || feature->ints.size() != count) {
    return Corrupt(where + "expected " + std::to_string(count) +
                   " int64 values, as many as there are indices, found " +
                   DescribeFeature(*feature));
  }
  for (size_t i = 0; i < count; ++i) {
    const int64_t field = feature->ints[i];
    if (static_cast<uint64_t>(field) >= options_.num_fields) {
      return Corrupt(where + FieldRange(options_.num_fields) + std::to_string(field) +
                     " at position " + std::to_string(i));
    }
    fields_[i] = static_cast<uint16_t>(field);
  }
  return {};
}

Status ExampleDecoder::CheckIndex(const FeatureView* index) const {
  const std::string where = "index feature " + Quoted(options_.names.index) + ": ";
  if (!index || (index->kind != FeatureKind::kInt64 && index->kind != FeatureKind::kNone)) {
    return Corrupt(where + "expected int64 values, found " + Describe(index, view_));
  }
  for (size_t i = 0; i < index->ints.size(); ++i) {
    const int64_t key = index->ints[i];
    if (options_.num_features == 0) {
      if (static_cast<uint64_t>(key) != kInterceptKey) continue;
      return Corrupt(where + kReservedKeyText + " at position " + std::to_string(i));
    }
    if (static_cast<uint64_t>(key) < options_.num_features) continue;
    if (options_.unknown_key == UnknownKey::kLeaveOut) continue;
    return Corrupt(where + "expected indices from 0 to below num_features = " +
                   std::to_string(options_.num_features) + ", found " + std::to_string(key) +
                   " at position " + std::to_string(i) +
                   (key < 0 ? ""
                            : TooFewFeatures(static_cast<uint64_t>(key)) +
                                  " (millrace-records stat prints the largest)"));
  }
  return {};
}

}  // namespace millrace::io
