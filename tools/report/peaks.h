// SPDX-License-Identifier: Apache-2.0
// Means and peaks of the resources that processes and their host used.
#pragma once

#include <string>
#include <vector>

#include "tools/report/run_data.h"

namespace millrace::report {

struct PeakRow {
  std::string resource;  // "CPU", "memory", "network sent"
  std::string unit;      // "cores", "MB", "MB/s", "Mbit/s", "1/s"
  double mean = 0;
  double peak = 0;
};

struct ProcessPeaks {
  std::string process;  // "worker-0", or "host"
  std::vector<PeakRow> rows;
};

// Processes with at least two samples, and the host by the samples of the first process.
std::vector<ProcessPeaks> MakePeaks(const RunData& run);

std::string PeaksText(const std::vector<ProcessPeaks>& peaks);

// Compares several runs, for example synchronous with asynchronous: each row has the largest peak
// of any process.
std::string ComparePeaksText(const std::vector<const RunData*>& runs);

}  // namespace millrace::report
