// SPDX-License-Identifier: Apache-2.0
#include "io/base/json.h"
#include "tools/records/stats_report.h"

namespace millrace::records {
namespace {

void WriteUint(JsonWriter& json, std::string_view name, uint64_t value) {
  json.Key(name);
  json.Uint(value);
}

void WriteString(JsonWriter& json, std::string_view name, std::string_view value) {
  json.Key(name);
  json.String(value);
}

void WriteRange(JsonWriter& json, std::string_view name, const CountRange& range) {
  json.Key(name);
  json.BeginObject();
  WriteUint(json, "min", range.times == 0 ? 0 : range.min);
  json.Key("mean");
  json.Double(range.mean());
  WriteUint(json, "max", range.max);
  json.EndObject();
}

void WriteFeatures(JsonWriter& json, const RecordStats& stats) {
  json.Key("features");
  json.BeginObject();
  for (const auto& [name, feature] : stats.features()) {
    json.Key(name);
    json.BeginObject();
    WriteString(json, "kind", KindsText(feature));
    WriteUint(json, "records", feature.values.times);
    WriteRange(json, "values", feature.values);
    json.EndObject();
  }
  json.EndObject();
}

void WriteFeatureLists(JsonWriter& json, const RecordStats& stats) {
  json.Key("feature_lists");
  json.BeginObject();
  for (const auto& [name, list] : stats.feature_lists()) {
    json.Key(name);
    json.BeginObject();
    WriteString(json, "kind", KindsText(list.step));
    WriteUint(json, "records", list.steps.times);
    WriteRange(json, "steps", list.steps);
    WriteRange(json, "values_per_step", list.step.values);
    json.EndObject();
  }
  json.EndObject();
}

void WriteLabels(JsonWriter& json, const LabelStats& labels) {
  json.Key("labels");
  json.BeginArray();
  for (const auto& [value, count] : labels.counts) {
    json.BeginObject();
    json.Key("value");
    json.Double(value);
    WriteUint(json, "records", count);
    json.EndObject();
  }
  json.EndArray();
  WriteUint(json, "labels_beyond_the_list", labels.more);
  WriteUint(json, "records_without_label", labels.none);
}

void WriteKeys(JsonWriter& json, const KeyStats& stats) {
  json.Key("keys");
  json.BeginObject();
  WriteUint(json, "count", stats.keys.times);
  WriteUint(json, "min", stats.keys.times == 0 ? 0 : stats.keys.min);
  WriteUint(json, "max", stats.keys.max);
  WriteUint(json, "distinct_about", stats.distinct.Estimate());
  WriteUint(json, "records_without", stats.none);
  json.Key("records_by_count");
  json.BeginObject();
  for (size_t b = 0; b < stats.histogram.size(); ++b) {
    if (stats.histogram[b] > 0) WriteUint(json, BucketText(b), stats.histogram[b]);
  }
  json.EndObject();
  json.EndObject();
}

void WriteValues(JsonWriter& json, const ValueStats& stats) {
  json.Key("values");
  json.BeginObject();
  WriteUint(json, "count", stats.count);
  WriteUint(json, "ones", stats.ones);
  WriteUint(json, "not_finite", stats.not_finite);
  if (stats.min <= stats.max) {
    json.Key("min");
    json.Float(stats.min);
    json.Key("max");
    json.Float(stats.max);
  }
  WriteUint(json, "records_without", stats.none);
  WriteUint(json, "records_mismatched", stats.mismatched);
  json.EndObject();
}

void WriteOverview(JsonWriter& json, const std::vector<FileScan>& files, const RecordStats& stats) {
  const FileScan total = Total(files);
  WriteUint(json, "files", files.size());
  WriteString(json, "compression", CompressionsText(files));
  WriteUint(json, "disk_bytes", total.disk_bytes);
  WriteUint(json, "decompressed_bytes", total.frame_bytes);
  WriteUint(json, "records", total.records);
  WriteUint(json, "examples", stats.examples());
  WriteUint(json, "sequence_examples", stats.sequence_examples());
  WriteUint(json, "others", stats.others());
  WriteUint(json, "corrupt_regions", total.corruption.events);
  WriteUint(json, "corrupt_bytes", total.corruption.bytes);
}

}  // namespace

std::string StatsJson(const std::vector<FileScan>& files, const RecordStats& stats) {
  std::string text;
  JsonWriter json(text);
  json.BeginObject();
  WriteOverview(json, files, stats);
  WriteFeatures(json, stats);
  WriteFeatureLists(json, stats);
  WriteLabels(json, stats.labels());
  WriteKeys(json, stats.keys());
  WriteValues(json, stats.values());
  json.EndObject();
  return text + "\n";
}

}  // namespace millrace::records
