// SPDX-License-Identifier: Apache-2.0
// The general decoder: all features of any tf.Example or tf.SequenceExample, as views into the
// record's bytes.
//
//   Example         = 1: Features                      Features     = 1: map<string, Feature>
//   SequenceExample = 1: Features context              FeatureLists = 1: map<string, FeatureList>
//                     2: FeatureLists                  FeatureList  = 1: repeated Feature
//   Feature         = one of 1: BytesList, 2: FloatList, 3: Int64List
//   each list       = 1: repeated value, packed or not
//
// It accepts, rejects and merges exactly as libprotobuf does: fields come in any order, unknown
// fields are skipped, the last of equal map keys and the last kind of list in a Feature win, and
// names must be UTF-8.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/status.h"

namespace millrace::io {

enum class FeatureKind { kNone, kBytes, kFloat, kInt64 };
// "none", "bytes", "float", "int64".
const char* FeatureKindName(FeatureKind kind);

// Only the list of its kind has values. kNone is a feature without a list, which is not the same as
// an empty list.
struct FeatureView {
  std::string_view name;  // empty within a feature list
  FeatureKind kind = FeatureKind::kNone;
  std::span<const std::string_view> bytes;
  std::span<const float> floats;
  std::span<const int64_t> ints;

  size_t size() const { return bytes.size() + floats.size() + ints.size(); }
};
// For messages: "39 int64 values", "a feature without values".
std::string DescribeFeature(const FeatureView& feature);

struct FeatureListView {
  std::string_view name;
  std::span<const FeatureView> steps;
};

namespace internal {
struct FeatureArena;
}

// One decoded record. Decoding another record into it reuses its memory. Its views point into the
// record and into this object, and are valid until either changes. Not thread-safe.
class ExampleView {
 public:
  ExampleView();
  ~ExampleView();
  ExampleView(ExampleView&&) noexcept;
  ExampleView& operator=(ExampleView&&) noexcept;

  // Sorted by name, names unique: an Example's features, or a SequenceExample's context.
  const std::vector<FeatureView>& features() const;
  // Sorted by name, names unique; empty for an Example.
  const std::vector<FeatureListView>& feature_lists() const;
  // Null if no feature has that name.
  const FeatureView* Find(std::string_view name) const;
  const FeatureListView* FindList(std::string_view name) const;
  // The number of unknown fields, at any level.
  uint64_t unknown_fields() const;
  // Whether a SequenceExample's field 2 was present, possibly empty.
  bool has_feature_lists() const;

 private:
  friend Status ParseExample(std::string_view record, ExampleView& view);
  friend Status ParseSequenceExample(std::string_view record, ExampleView& view);
  Status Parse(std::string_view record, bool sequence);

  std::unique_ptr<internal::FeatureArena> arena_;
};

// For messages: "'index' (39 int64 values), 'label' (1 int64 value)"; only the first few of many.
std::string ListFeatures(const ExampleView& view);

// After an error, which names the byte within the record, `view` is empty.
Status ParseExample(std::string_view record, ExampleView& view);
Status ParseSequenceExample(std::string_view record, ExampleView& view);

enum class RecordKind { kExample, kSequenceExample, kOther };

// The most likely kind of a record; decoded into `view` unless it is kOther.
//
// Records carry no type, and protobuf skips unknown fields, so that plain text often parses as a
// message of unknown fields. Therefore a record counts as an Example or SequenceExample only if it
// parses and has no unknown field at any level; it is a SequenceExample if it has feature lists. An
// empty record is an empty Example. A message with extension fields counts as kOther, although
// ParseExample reads it.
RecordKind DetectRecordKind(std::string_view record, ExampleView& view);

}  // namespace millrace::io
