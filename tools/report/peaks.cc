// SPDX-License-Identifier: Apache-2.0
#include "tools/report/peaks.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <numeric>

#include "tools/common/text_table.h"

namespace millrace::report {
namespace {

using tools::TextColumn;
using tools::TextTable;

constexpr double kMega = 1e6;
constexpr double kBits = 8;

struct Measure {
  const char* resource;
  const char* unit;
  std::vector<const char*> columns;  // summed
  bool is_rate;
  double scale;
};

const std::vector<Measure>& ProcessMeasures() {
  static const std::vector<Measure> measures = {
      {"CPU", "cores", {"user_s_total", "system_s_total"}, true, 1},
      {"CPU in the kernel", "cores", {"system_s_total"}, true, 1},
      {"memory", "MB", {"resident_bytes"}, false, 1 / kMega},
      {"page faults", "1/s", {"minor_faults_total", "major_faults_total"}, true, 1},
      {"reads, cached or not", "MB/s", {"read_bytes_total"}, true, 1 / kMega},
      {"disk read", "MB/s", {"disk_read_bytes_total"}, true, 1 / kMega},
      {"disk written", "MB/s", {"disk_written_bytes_total"}, true, 1 / kMega},
      {"network sent", "Mbit/s", {"tcp_sent_bytes_total"}, true, kBits / kMega},
      {"network received", "Mbit/s", {"tcp_received_bytes_total"}, true, kBits / kMega},
      {"packets in and out",
       "1/s",
       {"tcp_sent_packets_total", "tcp_received_packets_total"},
       true,
       1},
      {"context switches",
       "1/s",
       {"voluntary_switches_total", "involuntary_switches_total"},
       true,
       1},
  };
  return measures;
}

const std::vector<Measure>& HostMeasures() {
  static const std::vector<Measure> measures = {
      {"CPU", "cores", {"host_busy_s_total"}, true, 1},
      {"memory", "MB", {"host_used_bytes"}, false, 1 / kMega},
      {"disk read", "MB/s", {"host_disk_read_bytes_total"}, true, 1 / kMega},
      {"disk written", "MB/s", {"host_disk_written_bytes_total"}, true, 1 / kMega},
      {"loopback", "Mbit/s", {"loopback_bytes_total"}, true, kBits / kMega},
      {"interfaces sent", "Mbit/s", {"interface_sent_bytes_total"}, true, kBits / kMega},
      {"interfaces received", "Mbit/s", {"interface_received_bytes_total"}, true, kBits / kMega},
      {"context switches", "1/s", {"host_switches_total"}, true, 1},
  };
  return measures;
}

std::vector<double> Values(const ProcessData& process, const Measure& measure) {
  std::vector<double> sum;
  for (const char* column : measure.columns) {
    const auto found = process.samples.find(column);
    if (found == process.samples.end()) continue;
    const std::vector<double> part = measure.is_rate ? Rates(process, column) : found->second;
    sum.resize(part.size());
    for (size_t i = 0; i < part.size(); ++i) sum[i] += part[i] * measure.scale;
  }
  return sum;
}

ProcessPeaks PeaksOf(const ProcessData& process, const std::string& name,
                     const std::vector<Measure>& measures) {
  ProcessPeaks peaks{.process = name, .rows = {}};
  for (const Measure& measure : measures) {
    const std::vector<double> values = Values(process, measure);
    if (values.empty()) continue;
    peaks.rows.push_back(
        {measure.resource, measure.unit,
         std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size()),
         *std::max_element(values.begin(), values.end())});
  }
  return peaks;
}

std::string Number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, value < 100 ? "%.2f" : "%.0f", value);
  return text;
}

}  // namespace

std::vector<ProcessPeaks> MakePeaks(const RunData& run) {
  std::vector<ProcessPeaks> peaks;
  const ProcessData* first = nullptr;
  for (const ProcessData& process : run.processes) {
    if (process.num_samples() < 2) continue;
    if (!first) first = &process;
    peaks.push_back(PeaksOf(process, process.name, ProcessMeasures()));
  }
  if (!first) return peaks;
  peaks.push_back(PeaksOf(*first, "host", HostMeasures()));
  // The kernel counts in units of 10 ms, some of which fall into the next sample.
  const double cores = run.Number("host.cores");
  for (PeakRow& row : peaks.back().rows) {
    if (cores <= 0 || row.unit != std::string_view("cores")) continue;
    row.mean = std::min(row.mean, cores);
    row.peak = std::min(row.peak, cores);
  }
  return peaks;
}

std::string PeaksText(const std::vector<ProcessPeaks>& peaks) {
  TextTable table({{"process"}, {"resource"}, {"unit"}, {"mean", true}, {"peak", true}});
  for (const ProcessPeaks& process : peaks) {
    for (const PeakRow& row : process.rows) {
      table.Add({process.process, row.resource, row.unit, Number(row.mean), Number(row.peak)});
    }
  }
  return table.Text();
}

std::string ComparePeaksText(const std::vector<const RunData*>& runs) {
  std::vector<TextColumn> columns = {{"peak of"}, {"unit"}};
  std::vector<std::map<std::string, double>> peaks(runs.size());
  for (size_t r = 0; r < runs.size(); ++r) {
    const std::filesystem::path path(runs[r]->path);
    columns.push_back(
        {(path.has_filename() ? path : path.parent_path()).filename().string(), true});
    for (const ProcessPeaks& process : MakePeaks(*runs[r])) {
      for (const PeakRow& row : process.rows) {
        const std::string prefix = process.process == "host" ? "host " : "";
        double& most = peaks[r][prefix + row.resource];
        most = std::max(most, row.peak);
      }
    }
  }
  TextTable table(columns);
  const auto add = [&](const std::string& prefix, const std::vector<Measure>& measures) {
    for (const Measure& measure : measures) {
      std::vector<std::string> cells = {prefix + measure.resource, measure.unit};
      for (auto& run : peaks) cells.push_back(Number(run[prefix + measure.resource]));
      table.Add(std::move(cells));
    }
  };
  add("", ProcessMeasures());
  add("host ", HostMeasures());
  return table.Text();
}

}  // namespace millrace::report
