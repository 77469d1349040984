// SPDX-License-Identifier: Apache-2.0
// ReadResources: the samples of a process.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include "tools/report/run_data.h"

namespace millrace::report {
namespace {

constexpr size_t kMaxColumns = 256;
constexpr double kMaxValue = 1e20;          // above all counts of 64 bits
constexpr uint64_t kThreadNodeBytes = 200;  // of a map, with the name

std::string_view TakeUntil(std::string_view& text, char mark) {
  const size_t end = text.find(mark);
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return part;
}

bool IsInRange(double value, double limit) { return std::abs(value) <= limit; }  // false for NaN

class ResourceFile {
 public:
  ResourceFile(const std::string& path, MemoryBudget& budget, ProcessData& process)
      : path_(path), budget_(budget), process_(process) {}

  Status Read(std::string_view text) {
    size_t number = 0;
    for (size_t end; (end = text.find('\n')) != std::string_view::npos;
         text.remove_prefix(end + 1)) {
      const std::string_view line = text.substr(0, end);
      if (++number == 1) {
        RETURN_IF_ERROR(ReadHeader(line));
        continue;
      }
      RETURN_IF_ERROR(ReadSample(line, number));
    }
    if (number == 0) return Corrupt(path_ + ": expected a line of column names, found the end");
    JoinLastSamples();
    if (bad_lines_ == 0) return {};
    return Corrupt(path_ + ": " + first_error_ + " (" + std::to_string(bad_lines_) + " of " +
                   std::to_string(number - 1) + " lines are no samples)");
  }

 private:
  Status HeaderError(const std::string& expected) const {
    return Corrupt(path_ + ": line 1: expected " + expected);
  }

  Status ReadHeader(std::string_view line) {
    const std::vector<std::string_view> names = CsvCells(line);
    if (names.size() > kMaxColumns)
      return HeaderError("at most " + std::to_string(kMaxColumns) + " columns");
    if (names.back() != "threads") return HeaderError("\"threads\" as the last column");
    const std::set<std::string_view> unique(names.begin(), names.end());
    if (unique.size() < names.size()) return HeaderError("different column names");
    if (!unique.contains("steady_ns") || !unique.contains("clock_offset_ns") ||
        unique.contains("time_ns")) {
      return HeaderError("the columns steady_ns and clock_offset_ns, and no time_ns");
    }
    const bool has_long_name = std::any_of(names.begin(), names.end(), [](std::string_view name) {
      return name.size() > kMaxNameBytes;
    });
    if (has_long_name)  // if cut, two of them could be equal
      return HeaderError("names of at most " + std::to_string(kMaxNameBytes) + " bytes");
    columns_.assign(names.begin(), names.end() - 1);
    values_.resize(columns_.size());
    return {};
  }

  // An error only if memory is exhausted.
  Status ReadSample(std::string_view line, size_t number) {
    std::vector<std::string_view> cells = CsvCells(line);
    if (cells.size() == columns_.size()) cells.emplace_back();  // a sample without threads
    if (cells.size() != columns_.size() + 1) {
      NoteBadLine(number, "expected " + std::to_string(columns_.size() + 1) + " cells, found " +
                              std::to_string(cells.size()));
      return {};
    }
    double time_ns = 0;
    for (size_t c = 0; c < columns_.size(); ++c) {
      values_[c] = CsvNumber(cells[c]);
      const bool is_time = columns_[c] == "steady_ns" || columns_[c] == "clock_offset_ns";
      if (!IsInRange(values_[c], is_time ? static_cast<double>(kMaxTimeNs) : kMaxValue)) {
        NoteBadLine(number, "expected a number for " + columns_[c]);
        return {};
      }
      if (is_time) time_ns += std::trunc(values_[c]);
    }
    if (!budget_.Take((columns_.size() + 1) * sizeof(double))) return budget_.Exceeded(path_);
    const size_t sample = process_.num_samples();
    for (size_t c = 0; c < columns_.size(); ++c)
      process_.samples[columns_[c]].push_back(values_[c]);
    process_.samples["time_ns"].push_back(time_ns);
    return AddThreads(cells.back(), sample);
  }

  // "input@1234=1.20+0.05;..." Entries of another form are left out.
  Status AddThreads(std::string_view text, size_t sample) {
    while (!text.empty()) {
      std::string_view entry = TakeUntil(text, ';');
      const std::string_view name = TakeUntil(entry, '@');
      int64_t tid = 0;
      const std::string_view id = TakeUntil(entry, '=');
      std::from_chars(id.data(), id.data() + id.size(), tid);
      const double user_s = CsvNumber(TakeUntil(entry, '+'));
      const double cpu_s = user_s + CsvNumber(entry);
      if (!IsInRange(cpu_s, kMaxValue)) continue;
      const auto [found, is_new] = process_.thread_samples.try_emplace(tid);
      if (!budget_.Take(sizeof(ProcessData::ThreadTime) + (is_new ? kThreadNodeBytes : 0)))
        return budget_.Exceeded(path_);
      ProcessData::ThreadTimes& thread = found->second;
      thread.name = Shortened(name, kMaxNameBytes);
      if (thread.times.empty() || thread.times.back().sample != sample)
        thread.times.push_back({sample, cpu_s});
    }
    return {};
  }

  void NoteBadLine(size_t number, const std::string& error) {
    if (bad_lines_++ == 0) first_error_ = "line " + std::to_string(number) + ": " + error;
  }

  // Replaces the last but one sample with the last, if they are close together: the last sample is
  // taken when the process exits. Since the kernel counts CPU time in units of 10 ms, a short
  // interval would give rates of many times the cores. A process too short for any rate keeps one
  // sample.
  void JoinLastSamples() {
    constexpr double kShortestNs = 100e6;
    const size_t n = process_.num_samples();
    if (n < 2) return;
    const std::vector<double>& time = process_.samples["time_ns"];
    const double shortest_ns = n < 3 ? kShortestNs : (time[n - 2] - time[n - 3]) / 2;
    if (time[n - 1] - time[n - 2] > shortest_ns) return;
    for (auto& [column, values] : process_.samples) {
      values.erase(values.begin() + static_cast<ptrdiff_t>(n - 2));
    }
    for (auto& [tid, thread] : process_.thread_samples) {
      std::erase_if(thread.times, [&](const auto& t) { return t.sample == n - 2; });
      if (!thread.times.empty() && thread.times.back().sample == n - 1)
        thread.times.back().sample = n - 2;
    }
  }

  const std::string& path_;
  MemoryBudget& budget_;
  ProcessData& process_;
  std::vector<std::string> columns_;  // without "threads"
  std::vector<double> values_;        // of one line
  size_t bad_lines_ = 0;
  std::string first_error_;
};

}  // namespace

std::vector<std::string_view> CsvCells(std::string_view line) {
  std::vector<std::string_view> cells;
  while (true) {
    const size_t comma = line.find(',');
    cells.push_back(line.substr(0, comma));
    if (comma == std::string_view::npos) return cells;
    line.remove_prefix(comma + 1);
  }
}

double CsvNumber(std::string_view cell) {
  double value = std::numeric_limits<double>::quiet_NaN();
  std::from_chars(cell.data(), cell.data() + cell.size(), value);
  return value;
}

Status ReadResources(std::string_view text, const std::string& path, MemoryBudget& budget,
                     ProcessData& process) {
  return ResourceFile(path, budget, process).Read(text);
}

}  // namespace millrace::report
