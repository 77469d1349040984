// SPDX-License-Identifier: Apache-2.0
#include "tools/convert/summary.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "tools/common/flags.h"
#include "tools/common/progress.h"

namespace millrace::convert {
namespace {

using tools::BytesText;
using tools::DurationText;
using tools::WithCommas;

std::string Share(uint64_t part, uint64_t whole) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f %%",
                whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole));
  return text;
}

std::string FeaturesText(const ConvertTally& tally) {
  if (tally.values == 0) return "none";
  const std::string range =
      "keys " + std::to_string(tally.min_key) + " to " + std::to_string(tally.max_key);
  // Keys hashed to 64 bits: no dense-index table can be that long.
  constexpr uint64_t kMaxDense = uint64_t{1} << 48;
  const uint64_t features = tally.num_features > 0 ? tally.num_features : tally.max_key + 1;
  if (features == 0 || features > kMaxDense)
    return range + ": for a hashed-key model, without --num_features";
  return range + ": --num_features=" + std::to_string(features);
}

void PrintRow(const char* title, const std::string& text) {
  std::printf("%-10s%s\n", title, tools::MessageText(text).c_str());
}

void PrintRows(const SummaryOptions& options, const ConvertTally& tally, uint64_t records) {
  const double mean =
      records == 0 ? 0 : static_cast<double>(tally.values) / static_cast<double>(records);
  char per_record[32];
  std::snprintf(per_record, sizeof per_record, "%.1f", mean);
  PrintRow("features", FeaturesText(tally));
  PrintRow("values", WithCommas(tally.values) + ", " + per_record + " per record");
  PrintRow("positives", WithCommas(tally.positives) + ", " + Share(tally.positives, records));
  if (tally.weighted > 0) {
    PrintRow("weighted",
             WithCommas(tally.weighted) + " records, feature \"" + options.weight_feature + "\"");
  }
  if (tally.num_fields > 0) {
    PrintRow("fields", "0 to " + std::to_string(tally.num_fields - 1) + ", feature \"" +
                           options.field_feature + "\"");
  }
}

void PrintClasses(const ConvertTally& tally) {
  constexpr size_t kShown = 12;
  std::string counts;
  for (size_t label = 0; label < std::min(kShown, tally.class_counts.size()); ++label) {
    counts += std::string(label == 0 ? ": " : ", ") + std::to_string(label) + " x " +
              WithCommas(tally.class_counts[label]);
  }
  if (tally.class_counts.size() > kShown) counts += ", ...";
  PrintRow("classes", std::to_string(tally.class_counts.size()) + counts);
}

std::string FilesText(const ShardWriter& out) {
  uint64_t bytes = 0;
  for (const std::string& file : out.files()) {
    std::error_code error;
    const uint64_t size = std::filesystem::file_size(file, error);
    if (!error) bytes += size;
  }
  std::string pattern = out.files().front();
  const size_t count = out.files().size();
  if (count > 1) pattern.replace(pattern.rfind("-00000-of-") + 1, 5, "*");
  return std::to_string(count) + ", " + BytesText(bytes) + ": " + pattern;
}

}  // namespace

void PrintSummary(const SummaryOptions& options, const ShardWriter& out,
                  const ConvertTally& tally) {
  PrintRow("format", FormatName(options.format));
  PrintRow("records", WithCommas(tally.records_in) + " in, " + WithCommas(out.records()) +
                          " out, " + WithCommas(tally.skipped) + " skipped");
  if (tally.skipped > 0) PrintRow("", "first skipped: " + tally.first_skipped);
  const bool images = options.format == Format::kMnist || options.format == Format::kImages;
  if (images) {
    PrintClasses(tally);
  } else {
    PrintRows(options, tally, out.records());
  }
  PrintRow("files", FilesText(out));
  if (!options.vocabulary_out.empty()) {
    const std::string extended =
        tally.old_features == 0 ? ""
                                : ": " + WithCommas(tally.old_features) + " old keys, " +
                                      WithCommas(tally.num_features - tally.old_features) + " new";
    PrintRow("", options.vocabulary_out + extended);
  }
  if (options.format == Format::kImages) PrintRow("", out.folder() + "/labels.txt");
  PrintRow("time", DurationText(options.seconds) + ", " +
                       WithCommas(static_cast<uint64_t>(static_cast<double>(out.records()) /
                                                        std::max(options.seconds, 1e-9))) +
                       " records/s");
}

}  // namespace millrace::convert
