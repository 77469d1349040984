// SPDX-License-Identifier: Apache-2.0
#include "tools/common/progress.h"

#include <unistd.h>

#include <utility>

#include "profiler/clock.h"

namespace millrace::tools {
namespace {

constexpr double kFirstShowS = 1.0;
constexpr double kTerminalPeriodS = 0.2;
constexpr double kPlainPeriodS = 10.0;

std::string Formatted(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

// The part after the number of units done.
std::string ShareText(uint64_t done, uint64_t total) {
  const double percent = 100.0 * static_cast<double>(done) / static_cast<double>(total);
  std::string text = "/";
  return text.append(WithCommas(total)).append(Formatted(" (%.0f%%)", percent));
}

std::string TimeLeftText(uint64_t done, uint64_t total, double rate) {
  const uint64_t left = total > done ? total - done : 0;
  std::string text = ", ";
  return text.append(DurationText(static_cast<double>(left) / rate)).append(" left");
}

std::string LineText(const ProgressOptions& options, uint64_t done, double seconds) {
  const double rate = static_cast<double>(done - options.first) / seconds;
  std::string line = options.work + ": " + WithCommas(done);
  if (options.total > 0) line += ShareText(done, options.total);
  line += " " + options.unit + ", " + WithCommas(static_cast<uint64_t>(rate)) + "/s";
  if (options.total > 0 && done > options.first) line += TimeLeftText(done, options.total, rate);
  return line;
}

}  // namespace

Progress::Progress(ProgressOptions options)
    : options_(std::move(options)),
      now_s_(options_.now_s ? options_.now_s : NowSeconds),
      is_terminal_(options_.is_terminal < 0 ? isatty(fileno(options_.out)) == 1
                                            : options_.is_terminal == 1),
      start_s_(now_s_()),
      done_(options_.first),
      next_show_s_(start_s_ + (is_terminal_ ? kFirstShowS : kPlainPeriodS)) {}

Progress::~Progress() { Hide(); }

void Progress::Hide() {
  const std::lock_guard lock(mutex_);
  if (!is_terminal_ || !std::exchange(shown_, false)) return;
  std::fputs("\r\x1b[K", options_.out);
  std::fflush(options_.out);
}

void Progress::Add(uint64_t units, std::string_view more) {
  done_.fetch_add(units, std::memory_order_relaxed);
  // Another thread is showing the line. These units are shown next time.
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  const double now_s = now_s_();
  if (now_s >= next_show_s_) Show(now_s, more);
}

void Progress::Show(double now_s, std::string_view more) {
  const std::string line = LineText(options_, done(), now_s - start_s_).append(more);
  std::fprintf(options_.out, is_terminal_ ? "\r%s\x1b[K" : "%s\n", line.c_str());
  std::fflush(options_.out);
  shown_ = true;
  next_show_s_ = now_s + (is_terminal_ ? kTerminalPeriodS : kPlainPeriodS);
}

std::string WithCommas(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, 1, ',');
  return text;
}

std::string Counted(uint64_t number, const char* noun) {
  return WithCommas(number) + " " + noun + (number == 1 ? "" : "s");
}

std::string DurationText(double seconds) {
  if (seconds < 9.995) return Formatted("%.2f s", seconds);
  if (seconds < 59.95) return Formatted("%.1f s", seconds);
  const auto whole = static_cast<long long>(seconds + 0.5);
  char text[64];
  if (whole < 3600) {
    std::snprintf(text, sizeof text, "%lld min %02lld s", whole / 60, whole % 60);
  } else {
    std::snprintf(text, sizeof text, "%lld h %02lld min", whole / 3600, whole % 3600 / 60);
  }
  return text;
}

std::string BytesText(uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes < 1000) return std::to_string(bytes) + " B";
  if (value < 999.5e3) return Formatted("%.3g kB", value / 1e3);
  if (value < 999.5e6) return Formatted("%.3g MB", value / 1e6);
  if (value < 999.5e9) return Formatted("%.3g GB", value / 1e9);
  return Formatted("%.4g TB", value / 1e12);
}

}  // namespace millrace::tools
