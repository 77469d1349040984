// What `stat` prints: tables for people, or JSON.
#pragma once

#include <string>
#include <vector>

#include "tools/records/record_stats.h"
#include "tools/records/scan.h"

namespace millrace::records {

std::string StatsText(const std::vector<FileScan>& files, const RecordStats& stats);

// One object in one line, with a newline.
std::string StatsJson(const std::vector<FileScan>& files, const RecordStats& stats);

// "none", or of several files "gzip, none".
std::string CompressionsText(const std::vector<FileScan>& files);

// The keys that bucket `b` of KeyStats::histogram stands for: "0", "1", "2-3", "4-7".
std::string BucketText(size_t b);

// "int64", or of several kinds "float, int64".
std::string KindsText(const FeatureStats& stats);

}  // namespace millrace::records
