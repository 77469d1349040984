// The general decoder: all features of any tf.Example or tf.SequenceExample, as views into the
// record's bytes.
//
//   Example         = 1: Features                      Features     = 1: map<string, Feature>
//   SequenceExample = 1: Features context              FeatureLists = 1: map<string, FeatureList>
//                     2: FeatureLists                  FeatureList  = 1: repeated Feature
//   Feature         = one of 1: BytesList, 2: FloatList, 3: Int64List
//   each list       = 1: repeated value, packed or not
//
// What is accepted, refused and merged is what libprotobuf does with these messages: fields in any
// order, unknown fields passed over, the last of equal map keys, the last kind of list in a
// Feature; names must be UTF-8.
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

// One decoded record, to be used for many: decoding into it again reuses its memory. Its views
// point into the record and into itself, and hold until either changes or goes. Not thread-safe.
class ExampleView {
 public:
  ExampleView();
  ~ExampleView();
  ExampleView(ExampleView&&) noexcept;
  ExampleView& operator=(ExampleView&&) noexcept;

  // Sorted by name, names unique: an Example's features, or a SequenceExample's context.
  const std::vector<FeatureView>& features() const;
  // Likewise sorted and unique; empty for an Example.
  const std::vector<FeatureListView>& feature_lists() const;
  // Null when there is none of that name.
  const FeatureView* Find(std::string_view name) const;
  const FeatureListView* FindList(std::string_view name) const;
  // Fields, at any level, that the messages do not have.
  uint64_t unknown_fields() const;
  // A SequenceExample's field 2 was there, though it may have been empty.
  bool has_feature_lists() const;

 private:
  friend Status ParseExample(std::string_view record, ExampleView& view);
  friend Status ParseSequenceExample(std::string_view record, ExampleView& view);
  Status Parse(std::string_view record, bool sequence);

  std::unique_ptr<internal::FeatureArena> arena_;
};

// For messages: "'index' (39 int64 values), 'label' (1 int64 value)"; of many, the first few.
std::string ListFeatures(const ExampleView& view);

// After an error, which names the byte within the record, `view` is empty.
Status ParseExample(std::string_view record, ExampleView& view);
Status ParseSequenceExample(std::string_view record, ExampleView& view);

enum class RecordKind { kExample, kSequenceExample, kOther };

// What a record of unknown origin most likely is; decoded into `view` unless it is kOther.
//
// Nothing in a record says what it is, and protobuf passes over what it doesn't know, so that many
// a text parses as a message of unknown fields. Therefore: a record is one of the two only if it
// parses and has no unknown field at any level; of these, it is a SequenceExample exactly if it has
// feature lists. An empty record is an empty Example. A message with extension fields of its own
// counts as kOther; ParseExample reads it nevertheless.
RecordKind GuessRecord(std::string_view record, ExampleView& view);

}  // namespace millrace::io
