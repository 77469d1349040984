// SPDX-License-Identifier: Apache-2.0
#include "tools/records/stats_report.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <set>

#include "io/base/json.h"
#include "tools/common/progress.h"
#include "tools/records/record_json.h"

namespace millrace::records {
namespace {

using tools::BytesText;
using tools::WithCommas;

using Row = std::vector<std::string>;

// Columns as wide as their widest cell, with two spaces before each.
std::string Table(const std::vector<Row>& rows, const std::vector<bool>& right_aligned) {
  std::vector<size_t> widths(right_aligned.size(), 0);
  for (const Row& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string padding(widths[c] - row[c].size(), ' ');
      line += "  " + (right_aligned[c] ? padding + row[c] : row[c] + padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string Percent(uint64_t part, uint64_t whole) {
  char text[32];
  const double share =
      whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  std::snprintf(text, sizeof text, "%.2f %%", share);
  return text;
}

std::string Fixed(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

std::string Shortest(double value) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}
std::string Shortest(float value) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

// Names may be any UTF-8; a name that would break the table is quoted.
std::string NameText(const std::string& name) {
  if (!name.empty() && IsPrintable(name) && name.find_first_of("\t\r\n") == std::string::npos) {
    return name;
  }
  std::string quoted;
  JsonWriter(quoted).String(name);
  return quoted;
}

Row RangeCells(const CountRange& range) {
  if (range.times == 0) return {"-", "-", "-"};
  return {WithCommas(range.min), Fixed(range.mean()), WithCommas(range.max)};
}

std::string Overview(const std::vector<FileScan>& files, const RecordStats& stats) {
  const FileScan total = Total(files);
  const uint64_t mean = total.records == 0 ? 0 : total.frame_bytes / total.records;
  std::vector<Row> rows = {
      {"files", WithCommas(files.size()) + ", compression " + CompressionsText(files)},
      {"on disk", BytesText(total.disk_bytes)},
      {"decompressed", BytesText(total.frame_bytes) + ", " + BytesText(mean) + " per record"},
      {"records", WithCommas(total.records) + ": " + WithCommas(stats.examples()) + " Example, " +
                      WithCommas(stats.sequence_examples()) + " SequenceExample, " +
                      WithCommas(stats.others()) + " other"},
  };
  if (total.corruption.events > 0) {
    rows.push_back({"corrupt", WithCommas(total.corruption.events) + " regions, " +
                                   BytesText(total.corruption.bytes) +
                                   "; the first: " + total.corruption.first});
  }
  return Table(rows, {false, false});
}

Row FeatureRow(const std::string& name, const FeatureStats& stats, uint64_t records) {
  Row row = {NameText(name), KindsText(stats), WithCommas(stats.values.times),
             Percent(stats.values.times, records)};
  for (const std::string& cell : RangeCells(stats.values)) row.push_back(cell);
  return row;
}

std::string FeatureTable(const RecordStats& stats) {
  if (stats.features().empty()) return "";
  const uint64_t records = stats.examples() + stats.sequence_examples();
  std::vector<Row> rows = {{"feature", "kind", "records", "share", "values min", "mean", "max"}};
  for (const auto& [name, feature] : stats.features()) {
    rows.push_back(FeatureRow(name, feature, records));
  }
  return Table(rows, {false, false, true, true, true, true, true});
}

std::string FeatureListTable(const RecordStats& stats) {
  if (stats.feature_lists().empty()) return "";
  std::vector<Row> rows = {{"feature list", "kind", "records", "steps min", "mean", "max",
                            "values per step min", "mean", "max"}};
  for (const auto& [name, list] : stats.feature_lists()) {
    Row row = {NameText(name), KindsText(list.step), WithCommas(list.steps.times)};
    for (const std::string& cell : RangeCells(list.steps)) row.push_back(cell);
    for (const std::string& cell : RangeCells(list.step.values)) row.push_back(cell);
    rows.push_back(row);
  }
  return Table(rows, {false, false, true, true, true, true, true, true, true});
}

std::string LabelTable(const RecordStats& stats) {
  constexpr size_t kMostRows = 20;
  const LabelStats& labels = stats.labels();
  if (labels.counts.empty()) return "";
  const uint64_t all = stats.examples() + stats.sequence_examples();
  std::vector<Row> rows = {{"label", "records", "share"}};
  uint64_t rest = labels.more;
  for (const auto& [value, count] : labels.counts) {
    if (rows.size() > kMostRows) {
      rest += count;
    } else {
      rows.push_back({Shortest(value), WithCommas(count), Percent(count, all)});
    }
  }
  if (rest > 0) rows.push_back({"others", WithCommas(rest), Percent(rest, all)});
  if (labels.none > 0) rows.push_back({"none", WithCommas(labels.none), Percent(labels.none, all)});
  return Table(rows, {true, true, true});
}

std::string KeyLines(const RecordStats& stats) {
  const KeyStats& keys = stats.keys();
  if (keys.keys.times == 0) return "";
  std::string text = "  keys: ";
  text += WithCommas(keys.keys.times) + " from " + std::to_string(keys.keys.min) + " to " +
          std::to_string(keys.keys.max) + ", about " + WithCommas(keys.distinct.Estimate()) +
          " distinct";
  // Larger keys are hashes, for a hashed-key table.
  if (keys.keys.max < uint64_t{1} << 40) {
    text += "; --num_features=" + std::to_string(keys.keys.max + 1) + " or more";
  }
  return text + "\n";
}

std::string ValueLines(const RecordStats& stats) {
  const ValueStats& values = stats.values();
  if (stats.keys().keys.times == 0) return "";
  std::string text = "  values: ";
  if (values.ones == values.count) {
    text += "all ones";
  } else {
    text += WithCommas(values.count);
    if (values.min <= values.max) {
      text += " from " + Shortest(values.min) + " to " + Shortest(values.max);
    }
    text += ", " + Percent(values.ones, values.count) + " ones";
  }
  if (values.not_finite > 0) text += ", " + WithCommas(values.not_finite) + " not finite";
  if (values.none > 0) text += "; " + WithCommas(values.none) + " records without (all ones)";
  if (values.mismatched > 0) {
    text += "; " + WithCommas(values.mismatched) + " records with another number of keys";
  }
  return text + "\n";
}

std::string HistogramTable(const RecordStats& stats) {
  constexpr uint64_t kBarWidth = 40;
  const KeyStats& keys = stats.keys();
  if (keys.keys.times == 0) return "";
  const auto& histogram = keys.histogram;
  const uint64_t most = *std::max_element(histogram.begin(), histogram.end());
  uint64_t all = 0;
  for (const uint64_t count : histogram) all += count;
  std::vector<Row> rows = {{"keys per record", "records", "share", ""}};
  for (size_t b = 0; b < histogram.size(); ++b) {
    if (histogram[b] == 0) continue;
    const auto width = static_cast<size_t>((histogram[b] * kBarWidth + most - 1) / most);
    rows.push_back({BucketText(b), WithCommas(histogram[b]), Percent(histogram[b], all),
                    std::string(width, '#')});
  }
  return Table(rows, {true, true, true, false});
}

}  // namespace

std::string CompressionsText(const std::vector<FileScan>& files) {
  std::set<std::string> names;
  for (const FileScan& file : files) names.insert(io::CompressionName(file.compression));
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string BucketText(size_t b) {
  if (b < 2) return std::to_string(b);
  const uint64_t low = uint64_t{1} << (b - 1);
  return std::to_string(low) + "-" + std::to_string(low + (low - 1));
}

std::string KindsText(const FeatureStats& stats) {
  std::string text;
  for (size_t kind = 0; kind < stats.kinds.size(); ++kind) {
    if (stats.kinds[kind] == 0) continue;
    if (!text.empty()) text += ", ";
    text += io::FeatureKindName(static_cast<io::FeatureKind>(kind));
  }
  return text;
}

std::string StatsText(const std::vector<FileScan>& files, const RecordStats& stats) {
  std::string text = Overview(files, stats);
  for (const std::string& section :
       {FeatureTable(stats), FeatureListTable(stats), LabelTable(stats),
        KeyLines(stats) + ValueLines(stats), HistogramTable(stats)}) {
    if (!section.empty()) text += '\n';
    text += section;
  }
  return text;
}

}  // namespace millrace::records
