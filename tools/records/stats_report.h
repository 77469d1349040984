// SPDX-License-Identifier: Apache-2.0
// The output of `stat`: tables, or JSON.
#pragma once

#include <string>
#include <vector>

#include "tools/records/record_stats.h"
#include "tools/records/scan.h"

namespace millrace::records {

std::string StatsText(const std::vector<FileScan>& files, const RecordStats& stats);

// One object in one line, with a newline.
std::string StatsJson(const std::vector<FileScan>& files, const RecordStats& stats);

// "none"; "gzip, none" for files with different compression.
std::string CompressionsText(const std::vector<FileScan>& files);

// The numbers of keys in bucket `b` of KeyStats::histogram: "0", "1", "2-3", "4-7".
std::string BucketText(size_t b);

// "int64"; "float, int64" for a feature with several kinds.
std::string KindsText(const FeatureStats& stats);

}  // namespace millrace::records
