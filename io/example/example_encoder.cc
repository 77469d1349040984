// SPDX-License-Identifier: Apache-2.0
#include "io/example/example_encoder.h"

#include <bit>
#include <cstring>

#include "io/example/wire.h"

// The wire form, outermost first; every "..." is preceded by its length:
//
//   Example   1: Features
//   Features  1: map entry...                  one for each feature
//   entry     1: name...  2: Feature...
//   Feature   1: BytesList... | 2: FloatList... | 3: Int64List...
//   list      1: the values, packed (bytes: one field each); left out when there are none
namespace millrace::io {
namespace {

constexpr int kBytesList = 1, kFloatList = 2, kInt64List = 3;

constexpr char BytesTag(uint32_t number) {
  return static_cast<char>(WireTag(number, WireType::kBytes));
}

// 1 to 10 bytes of 7 bits each.
size_t VarintSize(uint64_t value) {
  return static_cast<size_t>(static_cast<unsigned>(std::bit_width(value | 1)) * 9 + 64) / 64;
}

char* WriteVarint(uint64_t value, char* p) {
  while (value >= 0x80) {
    *p++ = static_cast<char>(value | 0x80);
    value >>= 7;
  }
  *p++ = static_cast<char>(value);
  return p;
}

// Size of a field whose tag takes one byte: tag, length, content.
size_t FieldSize(size_t content) { return 1 + VarintSize(content) + content; }

char* WriteFieldHead(uint32_t number, size_t content, char* p) {
  *p++ = BytesTag(number);
  return WriteVarint(content, p);
}

// The sizes of one feature's nested messages, innermost last.
struct FeatureSizes {
  FeatureSizes(size_t name, size_t packed_bytes)
      : packed(packed_bytes),
        list(packed == 0 ? 0 : FieldSize(packed)),
        feature(FieldSize(list)),
        entry(FieldSize(name) + FieldSize(feature)) {}

  size_t packed, list, feature, entry;
};

// Everything up to the first packed value.
char* WriteFeatureHead(std::string_view name, int list_field, const FeatureSizes& sizes, char* p) {
  p = WriteFieldHead(1, sizes.entry, p);
  p = WriteFieldHead(1, name.size(), p);
  std::memcpy(p, name.data(), name.size());
  p = WriteFieldHead(2, sizes.feature, p + name.size());
  p = WriteFieldHead(static_cast<uint32_t>(list_field), sizes.list, p);
  return sizes.packed == 0 ? p : WriteFieldHead(1, sizes.packed, p);
}

size_t PackedSize(std::span<const uint64_t> keys) {
  size_t size = 0;
  for (const uint64_t key : keys) size += VarintSize(key);
  return size;
}

void AppendVarint(uint64_t value, std::string& out) {
  char bytes[10];
  out.append(bytes, static_cast<size_t>(WriteVarint(value, bytes) - bytes));
}

void AppendField(uint32_t number, std::string_view content, std::string& out) {
  out.push_back(BytesTag(number));
  AppendVarint(content.size(), out);
  out.append(content);
}

}  // namespace

void EncodeSparseExample(const FeatureNames& names, int64_t label, std::span<const uint64_t> keys,
                         std::span<const float> values, std::string& out) {
  const auto label_bits = static_cast<uint64_t>(label);
  const FeatureSizes index(names.index.size(), PackedSize(keys));
  const FeatureSizes target(names.label.size(), VarintSize(label_bits));
  const FeatureSizes value(names.value.size(), values.size_bytes());
  size_t features = FieldSize(index.entry) + FieldSize(target.entry);
  if (!values.empty()) features += FieldSize(value.entry);

  out.resize(FieldSize(features));
  char* p = WriteFieldHead(1, features, out.data());
  p = WriteFeatureHead(names.index, kInt64List, index, p);
  for (const uint64_t key : keys) p = WriteVarint(key, p);
  p = WriteFeatureHead(names.label, kInt64List, target, p);
  p = WriteVarint(label_bits, p);
  if (values.empty()) return;
  p = WriteFeatureHead(names.value, kFloatList, value, p);
  std::memcpy(p, values.data(), values.size_bytes());
}

void ExampleBuilder::AddInt64(std::string_view name, std::span<const int64_t> values) {
  std::string packed;
  for (const int64_t value : values) AppendVarint(static_cast<uint64_t>(value), packed);
  list_.clear();
  if (!packed.empty()) AppendField(1, packed, list_);
  AddFeature(name, kInt64List, list_);
}

void ExampleBuilder::AddFloat(std::string_view name, std::span<const float> values) {
  list_.clear();
  const auto* bytes = reinterpret_cast<const char*>(values.data());
  if (!values.empty()) AppendField(1, {bytes, values.size_bytes()}, list_);
  AddFeature(name, kFloatList, list_);
}

void ExampleBuilder::AddBytes(std::string_view name, std::span<const std::string_view> values) {
  list_.clear();
  for (const std::string_view value : values) AppendField(1, value, list_);
  AddFeature(name, kBytesList, list_);
}

void ExampleBuilder::AddFeature(std::string_view name, int list_field, std::string_view list) {
  const size_t feature = FieldSize(list.size());
  features_.push_back(BytesTag(1));
  AppendVarint(FieldSize(name.size()) + FieldSize(feature), features_);
  AppendField(1, name, features_);
  features_.push_back(BytesTag(2));
  AppendVarint(feature, features_);
  AppendField(static_cast<uint32_t>(list_field), list, features_);
}

void ExampleBuilder::Finish(std::string& out) {
  out.clear();
  AppendField(1, features_, out);
  features_.clear();
}

}  // namespace millrace::io
