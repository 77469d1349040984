#include "tools/report/run_data.h"

#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>

namespace millrace::report {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double Value(std::string_view cell) {
  double value = kNaN;
  std::from_chars(cell.data(), cell.data() + cell.size(), value);
  return value;
}

std::string_view TakeUntil(std::string_view& text, char mark) {
  const size_t end = text.find(mark);
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return part;
}

// "input@1234=1.20+0.05;..."
void AddThreads(std::string_view text, size_t sample, ProcessData& process) {
  while (!text.empty()) {
    std::string_view entry = TakeUntil(text, ';');
    const std::string_view name = TakeUntil(entry, '@');
    int64_t tid = 0;
    const std::string_view id = TakeUntil(entry, '=');
    std::from_chars(id.data(), id.data() + id.size(), tid);
    const double user = Value(TakeUntil(entry, '+'));
    ProcessData::ThreadTimes& times = process.thread_samples[tid];
    times.name = name;
    times.cpu_s.resize(sample, kNaN);
    times.cpu_s.push_back(user + Value(entry));
  }
}

// Replaces the last but one sample with the last, if they are close together: the last sample is
// taken when the process exits. Since the kernel counts CPU time in units of 10 ms, a short
// interval would give rates of many times the cores. A process too short for any rate keeps one
// sample.
void JoinLastSamples(ProcessData& process) {
  constexpr double kShortestNs = 100e6;
  const size_t n = process.num_samples();
  if (n < 2) return;
  const std::vector<double>& time = process.samples["time_ns"];
  const double shortest_ns = n < 3 ? kShortestNs : (time[n - 2] - time[n - 3]) / 2;
  if (time[n - 1] - time[n - 2] > shortest_ns) return;
  const auto drop = [&](std::vector<double>& values) {
    values.erase(values.begin() + static_cast<ptrdiff_t>(n - 2));
  };
  for (auto& [column, values] : process.samples) drop(values);
  for (auto& [tid, times] : process.thread_samples) drop(times.cpu_s);
}

}  // namespace

Status ReadResourceFile(const std::string& path, ProcessData& process) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return IoError("cannot read " + path, errno);
  std::string line;
  std::vector<std::string> columns;
  for (size_t number = 1; std::getline(file, line) && !file.eof(); ++number) {
    std::string_view rest = line;
    if (number == 1) {
      while (!rest.empty()) columns.emplace_back(TakeUntil(rest, ','));
      continue;
    }
    const size_t sample = process.samples["steady_ns"].size();
    for (size_t c = 0; c + 1 < columns.size(); ++c) {
      const double value = Value(TakeUntil(rest, ','));
      if (std::isnan(value)) {
        return Corrupt(path + ": line " + std::to_string(number) + ": expected a number for " +
                       columns[c]);
      }
      process.samples[columns[c]].push_back(value);
    }
    AddThreads(rest, sample, process);
    process.samples["time_ns"].push_back(process.samples["steady_ns"].back() +
                                         process.samples["clock_offset_ns"].back());
  }
  for (auto& [tid, times] : process.thread_samples) times.cpu_s.resize(process.num_samples(), kNaN);
  JoinLastSamples(process);
  return {};
}

}  // namespace millrace::report
