// SPDX-License-Identifier: Apache-2.0
#include "tools/records/record_stats.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace millrace::records {
namespace {

// Adds each view to the statistics of its name. `views` are sorted like the map, so the next entry
// of the map is usually the right one.
template <typename Stats, typename View>
void AddByName(const std::vector<View>& views, RecordStats::ByName<Stats>& by_name) {
  auto at = by_name.begin();
  for (const View& view : views) {
    if (at == by_name.end() || at->first != view.name) at = by_name.find(view.name);
    if (at == by_name.end()) at = by_name.emplace(std::string(view.name), Stats()).first;
    at->second.Add(view);
    ++at;
  }
}

template <typename Stats>
void MergeByName(const RecordStats::ByName<Stats>& from, RecordStats::ByName<Stats>& to) {
  for (const auto& [name, stats] : from) to[name].Merge(stats);
}

}  // namespace

void CountRange::Add(uint64_t count) {
  ++times;
  sum += count;
  min = std::min(min, count);
  max = std::max(max, count);
}

void CountRange::Merge(const CountRange& other) {
  times += other.times;
  sum += other.sum;
  min = std::min(min, other.min);
  max = std::max(max, other.max);
}

void FeatureStats::Add(const io::FeatureView& feature) {
  ++kinds[static_cast<size_t>(feature.kind)];
  values.Add(feature.size());
}

void FeatureStats::Merge(const FeatureStats& other) {
  for (size_t i = 0; i < kinds.size(); ++i) kinds[i] += other.kinds[i];
  values.Merge(other.values);
}

void FeatureListStats::Add(const io::FeatureListView& list) {
  steps.Add(list.steps.size());
  for (const io::FeatureView& one : list.steps) step.Add(one);
}

void FeatureListStats::Merge(const FeatureListStats& other) {
  steps.Merge(other.steps);
  step.Merge(other.step);
}

void LabelStats::Add(const io::FeatureView* label) {
  const bool single = label && label->size() == 1 && label->kind != io::FeatureKind::kBytes;
  const double value = !single                   ? std::nan("")
                       : label->ints.size() == 1 ? static_cast<double>(label->ints[0])
                                                 : static_cast<double>(label->floats[0]);
  if (std::isnan(value)) {
    ++none;
  } else {
    AddValue(value, 1);
  }
}

void LabelStats::AddValue(double value, uint64_t count) {
  const auto it = counts.find(value);
  if (it != counts.end()) {
    it->second += count;
  } else if (counts.size() < kMaxValues) {
    counts.emplace(value, count);
  } else {
    more += count;
  }
}

void LabelStats::Merge(const LabelStats& other) {
  for (const auto& [value, count] : other.counts) AddValue(value, count);
  more += other.more;
  none += other.none;
}

void KeyStats::Add(const io::FeatureView* index) {
  if (!index || index->kind != io::FeatureKind::kInt64) {
    ++none;
    return;
  }
  ++histogram[static_cast<size_t>(std::bit_width(index->ints.size()))];
  for (const int64_t key : index->ints) {
    keys.Add(static_cast<uint64_t>(key));
    distinct.Add(static_cast<uint64_t>(key));
  }
}

void KeyStats::Merge(const KeyStats& other) {
  keys.Merge(other.keys);
  distinct.Merge(other.distinct);
  for (size_t i = 0; i < histogram.size(); ++i) histogram[i] += other.histogram[i];
  none += other.none;
}

void ValueStats::Add(const io::FeatureView* index, const io::FeatureView* value) {
  if (!index || index->kind != io::FeatureKind::kInt64) return;
  if (!value || value->kind != io::FeatureKind::kFloat) {
    ++none;
    return;
  }
  const size_t size = value->floats.size();
  const auto ones_here = static_cast<size_t>(std::ranges::count(value->floats, 1.0f));
  mismatched += size != index->ints.size();
  count += size;
  ones += ones_here;
  if (ones_here > 0) Widen(1);
  if (ones_here == size) return;
  for (const float v : value->floats) Widen(v);
}

void ValueStats::Widen(float value) {
  if (!std::isfinite(value)) {
    ++not_finite;
    return;
  }
  min = std::min(min, value);
  max = std::max(max, value);
}

void ValueStats::Merge(const ValueStats& other) {
  count += other.count;
  ones += other.ones;
  not_finite += other.not_finite;
  min = std::min(min, other.min);
  max = std::max(max, other.max);
  none += other.none;
  mismatched += other.mismatched;
}

void RecordStats::Add(std::string_view record) {
  switch (io::DetectRecordKind(record, view_)) {
    case io::RecordKind::kExample:
      ++examples_;
      break;
    case io::RecordKind::kSequenceExample:
      ++sequence_examples_;
      break;
    case io::RecordKind::kOther:
      ++others_;
      return;
  }
  AddFeatures();
}

void RecordStats::AddFeatures() {
  AddByName(view_.features(), features_);
  AddByName(view_.feature_lists(), feature_lists_);
  const io::FeatureView* index = view_.Find(names_.index);
  labels_.Add(view_.Find(names_.label));
  keys_.Add(index);
  values_.Add(index, view_.Find(names_.value));
}

void RecordStats::Merge(const RecordStats& other) {
  examples_ += other.examples_;
  sequence_examples_ += other.sequence_examples_;
  others_ += other.others_;
  MergeByName(other.features_, features_);
  MergeByName(other.feature_lists_, feature_lists_);
  labels_.Merge(other.labels_);
  keys_.Merge(other.keys_);
  values_.Merge(other.values_);
}

}  // namespace millrace::records
