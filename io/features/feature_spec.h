// SPDX-License-Identifier: Apache-2.0
// The feature spec: how a row of named fields becomes a label, a weight and keys with values.
// docs/features.md describes the JSON form, docs/formats.md the keys byte by byte.
//
//   {
//     "label": {"column": "income", "positive": [">50K"]},
//     "hash_bits": 22,
//     "fields": [
//       {"name": "occupation", "rule": "hash"},
//       {"name": "age", "rule": "bucket", "boundaries": [25, 35, 50]},
//       {"name": "age x occupation", "rule": "cross", "of": ["age", "occupation"]}
//     ]
//   }
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/status.h"

namespace millrace::io {

struct LabelSpec {
  std::string column = "label";
  // A row is positive if its label is one of these texts. If there are none: if it is above
  // `threshold`; and without that, the label is 0, 1 or -1.
  std::vector<std::string> positive = {};
  std::optional<double> threshold = {};
};

enum class FieldRule { kHash, kVocabulary, kBucket, kNumber, kCross };
enum class BucketKind { kBoundaries, kLog2, kQuantiles };
enum class NumberScale { kNone, kStandard, kMaxAbs };

// How the weights of a field are trained, where it differs from the run's own options.
struct FieldUpdate {
  std::optional<double> l1 = {};
  std::optional<double> l2 = {};
  double rate = 1;  // a factor of the learning rate

  bool operator==(const FieldUpdate&) const = default;
};

// In the JSON form: a part of a cross that stands for each field.
constexpr char kAnyField[] = "*";

struct FieldSpec {
  std::string name;
  FieldRule rule = FieldRule::kHash;
  // Not for crosses:
  std::string column = {};     // the name, unless given
  std::string separator = {};  // splits each text of the column into several values; empty: none
  bool missing_key = false;    // a row without a value gets a key of its own, instead of none
  std::optional<std::string> default_value = {};  // stands for a missing value
  bool keys = true;                               // false: the field is only a part of crosses

  uint64_t min_count = 1;  // vocabulary: rarer values share the key of unseen values
  // Vocabulary: value -> rank; an empty value stands for a missing one. Ranks count all
  // vocabularies of the spec; the unseen values of a field have a rank, too. Old ranks stay when a
  // vocabulary is extended.
  std::map<std::string, uint64_t, std::less<>> values = {};
  std::optional<uint64_t> unseen_rank = {};  // set by the first pass

  BucketKind bucket = BucketKind::kBoundaries;
  uint64_t parts = 1;  // log2: buckets per power of two; quantiles: number of buckets
  std::vector<double> boundaries = {};  // ascending; a value x is in bucket number |{b : b <= x}|

  NumberScale scale = NumberScale::kNone;
  std::optional<double> center = {};  // value = (x - center) * factor; set by the first pass
  std::optional<double> factor = {};

  std::vector<std::string> of = {};  // cross: names of earlier fields that are no crosses

  FieldUpdate update = {};
};

// "hash", "vocabulary", "bucket", "number", "cross".
const char* RuleName(FieldRule rule);
std::optional<FieldRule> RuleFromName(std::string_view name);
// "none", "standard", "max_abs".
const char* ScaleName(NumberScale scale);
std::optional<NumberScale> ScaleFromName(std::string_view name);

// The number of buckets of a bucket field.
uint64_t BucketCount(const FieldSpec& field);

// The different updates of a spec's fields, and the keys that each is for: a key belongs to the
// last range whose first key is not above it, and has the update updates[group - 1]. Group 0, also
// that of keys below all ranges, is for fields without an update of their own. `ranges` are
// ascending; both are empty if there is only group 0.
struct FieldGroups {
  struct Range {
    uint64_t first_key = 0;
    size_t group = 0;
  };
  std::vector<FieldUpdate> updates = {};
  std::vector<Range> ranges = {};
};

struct FeatureSpec {
  LabelSpec label = {};
  std::string weight_column = {};  // empty: all weights are 1
  // Hashed keys are below 2^hash_bits. 64: every key is a 64-bit hash.
  int hash_bits = 22;
  std::vector<FieldSpec> fields = {};
  // The columns of CSV files without a header, in their order. Empty: the files have one.
  std::vector<std::string> csv_columns = {};

  // An error names the place in the spec, expected and found.
  Status Validate() const;

  // The label's column, the weight's if there is one, then those of the fields, without repeats.
  std::vector<std::string> Columns() const;
  // False if a field needs the first pass: a vocabulary, quantiles, scales.
  bool IsFitted() const;
  // All keys are below it; 0: any 64-bit key.
  uint64_t num_features() const;
  // The key space, unless every key is a 64-bit hash: first 2^hash_bits keys of hashes and crosses
  // (none if the spec has neither), then those of bucket and number fields in the order of the
  // fields, then those of vocabularies in the order of their ranks. Hashes and crosses with another
  // update have 2^hash_bits keys of their own behind those without one.
  // By field, except for vocabularies; the last one is that of rank 0. Of a 64-bit hash, the first
  // byte of a key is the number of the field's group if there is more than one group.
  std::vector<uint64_t> FirstKeys() const;
  FieldGroups Groups() const;
  std::vector<size_t> FieldGroupNumbers() const;

  // One line of JSON, the same for equal specs.
  std::string ToJson() const;
  // The same for people: one line per field.
  std::string ToPrettyJson() const;
};

// A cross of "*" becomes crosses of all fields, see docs/features.md. `source` names the text in
// messages. An unknown member of an object is an error.
Result<FeatureSpec> ParseFeatureSpec(std::string_view json, const std::string& source);
Result<FeatureSpec> LoadFeatureSpec(const std::string& path);

// Whether `spec` makes the keys of `earlier` and possibly more: it is the same but for values that
// were added to vocabularies. An error says what else differs.
Status CheckExtends(const FeatureSpec& spec, const FeatureSpec& earlier);

// Where two specs differ, for a message: "field 'age': boundaries are [25] and [30]". Empty if they
// make the same keys.
std::string DifferenceOf(const FeatureSpec& ours, const FeatureSpec& other);

}  // namespace millrace::io
