// SPDX-License-Identifier: Apache-2.0
// The statistics of `stat`: features, and for sparse examples labels, keys and values.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>

#include "io/example/example_encoder.h"
#include "io/example/feature_view.h"
#include "tools/records/distinct_counter.h"

namespace millrace::records {

// Minimum, maximum and sum of counts.
struct CountRange {
  uint64_t times = 0;
  uint64_t sum = 0;
  uint64_t min = ~uint64_t{0};
  uint64_t max = 0;

  void Add(uint64_t count);
  void Merge(const CountRange& other);
  double mean() const {
    return times == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(times);
  }
};

struct FeatureStats {
  std::array<uint64_t, 4> kinds{};  // records by io::FeatureKind
  CountRange values;                // values.times is the number of records with the feature

  void Add(const io::FeatureView& feature);
  void Merge(const FeatureStats& other);
};

struct FeatureListStats {
  CountRange steps;
  FeatureStats step;

  void Add(const io::FeatureListView& list);
  void Merge(const FeatureListStats& other);
};

// The label feature of each Example.
struct LabelStats {
  static constexpr size_t kMaxValues = 1000;
  std::map<double, uint64_t> counts;
  uint64_t more = 0;  // labels with other values, after kMaxValues distinct ones
  uint64_t none = 0;  // Examples whose label is missing, a list, bytes or NaN

  void Add(const io::FeatureView* label);
  void AddValue(double value, uint64_t count);
  void Merge(const LabelStats& other);
};

// The index feature of each Example.
struct KeyStats {
  CountRange keys;  // as unsigned numbers; keys.sum is meaningless
  DistinctCounter distinct;
  // Examples by their number of keys: [0] for none, [b] for 2^(b-1) to 2^b - 1.
  std::array<uint64_t, 65> histogram{};
  uint64_t none = 0;  // Examples without an index list of integers

  void Add(const io::FeatureView* index);
  void Merge(const KeyStats& other);
};

// The value feature of each Example that has an index list.
struct ValueStats {
  uint64_t count = 0;
  uint64_t ones = 0;
  uint64_t not_finite = 0;
  // Of the finite values; min > max if there are none.
  float min = std::numeric_limits<float>::infinity();
  float max = -std::numeric_limits<float>::infinity();
  uint64_t none = 0;        // Examples without a value list: all values are 1 by convention
  uint64_t mismatched = 0;  // Examples with different numbers of values and keys

  void Add(const io::FeatureView* index, const io::FeatureView* value);
  void Widen(float value);
  void Merge(const ValueStats& other);
};

class RecordStats {
 public:
  explicit RecordStats(const io::FeatureNames& names) : names_(names) {}

  void Add(std::string_view record);
  void Merge(const RecordStats& other);

  template <typename T>
  using ByName = std::map<std::string, T, std::less<>>;

  const io::FeatureNames& names() const { return names_; }
  uint64_t examples() const { return examples_; }
  uint64_t sequence_examples() const { return sequence_examples_; }
  uint64_t others() const { return others_; }
  const ByName<FeatureStats>& features() const { return features_; }  // and context features
  const ByName<FeatureListStats>& feature_lists() const { return feature_lists_; }
  const LabelStats& labels() const { return labels_; }
  const KeyStats& keys() const { return keys_; }
  const ValueStats& values() const { return values_; }

 private:
  void AddFeatures();

  io::FeatureNames names_;
  uint64_t examples_ = 0;
  uint64_t sequence_examples_ = 0;
  uint64_t others_ = 0;
  ByName<FeatureStats> features_;
  ByName<FeatureListStats> feature_lists_;
  LabelStats labels_;
  KeyStats keys_;
  ValueStats values_;
  io::ExampleView view_;
};

}  // namespace millrace::records
