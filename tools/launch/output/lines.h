// SPDX-License-Identifier: Apache-2.0
// Turns the bytes that a process writes into lines that can be shown.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::launch {

// A line ends with \n or \r\n. A line longer than kMaxLine bytes is split between UTF-8 characters,
// so the buffer is bounded. Text before a lone \r is a progress line that the next text overwrites:
// the splitter keeps one such line per second and always keeps the last one.
class LineSplitter {
 public:
  static constexpr size_t kMaxLine = 16384;
  static constexpr int64_t kProgressMs = 1000;

  // Appends the lines that are complete now, without their line ends.
  void Feed(std::string_view bytes, int64_t now_ms, std::vector<std::string>& lines);
  // The end of the output. Appends the rest as a line.
  void Finish(std::vector<std::string>& lines);

 private:
  void AddText(std::string_view text, int64_t now_ms, std::vector<std::string>& lines);
  void EndLine(std::vector<std::string>& lines);
  void CutLongLine(std::vector<std::string>& lines);

  std::string line_;
  bool after_return_ = false;  // the last byte was \r
  std::optional<int64_t> progress_ms_;
};

}  // namespace millrace::launch
