// The line that tells how far long work has come: rewritten in place on a terminal, a plain line
// every ten seconds elsewhere, nothing at all for work that is done within a second.
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
  uint64_t total = 0;  // 0: not known, no time left is shown
  uint64_t first = 0;  // units that were done before
  std::FILE* out = stderr;
  // For tests; by default a steady clock, and whether `out` is a terminal.
  std::function<double()> now_s = {};
  int is_terminal = -1;  // 0, 1; -1: ask the system
};

// Add may be called from any thread. The destructor takes the line off the terminal, so destroy it
// before a summary.
class Progress {
 public:
  explicit Progress(ProgressOptions options);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Cheap, but looks at the clock: call it for some thousand units at a time.
  void Add(uint64_t units) { Add(units, {}); }
  // `more` goes to the end of the line.
  void Add(uint64_t units, std::string_view more);
  // Takes the line off the terminal until it is next shown: to be called before anything else is
  // printed there.
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
  std::mutex mutex_;  // guards the next two and the writing
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
