// SPDX-License-Identifier: Apache-2.0
// The progress line of long work. On a terminal it is rewritten in place, elsewhere it is a new
// line every ten seconds. Work that takes less than a second has none.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace millrace::tools {

struct ProgressOptions {
  std::string work;    // "writing train"
  std::string unit;    // "rows"
  uint64_t total = 0;  // 0: unknown, no remaining time is shown
  uint64_t first = 0;  // units of an earlier, resumed run
  std::FILE* out = stderr;
  // For tests; by default a steady clock, and whether `out` is a terminal.
  std::function<double()> now_s = {};
  int is_terminal = -1;  // 0, 1; -1: isatty
};

// Add is thread-safe. The destructor removes the line from the terminal, so destroy the object
// before printing a summary.
class Progress {
 public:
  explicit Progress(ProgressOptions options);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Reads the clock, so call it once per some thousand units.
  void Add(uint64_t units) { Add(units, {}); }
  // `more` is added to the end of the line.
  void Add(uint64_t units, std::string_view more);
  // Removes the line from the terminal until the next Add that shows it. Call it before printing
  // anything else.
  void Hide();

  uint64_t done() const { return done_.load(std::memory_order_relaxed); }
  double seconds() const { return now_s_() - start_s_; }

 private:
  void Show(double now_s, std::string_view more);

  ProgressOptions options_;
  std::function<double()> now_s_;
  bool is_terminal_;
  double start_s_;
  std::atomic<uint64_t> done_{0};
  std::mutex mutex_;  // guards the next two and `out`
  double next_show_s_;
  bool shown_ = false;
};

// "1,234,567"
std::string WithCommas(uint64_t number);
// "1 step", "1,234 steps"
std::string Counted(uint64_t number, const char* noun);
// "0.42 s", "12.3 s", "4 min 05 s", "2 h 03 min"
std::string DurationText(double seconds);
// "512 B", "1.5 MB", "2.25 GB"; powers of ten
std::string BytesText(uint64_t bytes);

}  // namespace millrace::tools
