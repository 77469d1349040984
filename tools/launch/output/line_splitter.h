// Cuts what a process writes into lines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::tools {

// A line ends with \n or \r\n. One that grows beyond kMaxLine is cut there (between characters of
// UTF-8), so that nothing grows without bound. Text before a lone \r has been written over by what
// follows, as progress lines do: one such state a second becomes a line, the rest is dropped; the
// last state, the one that stays on a terminal, is never dropped.
class LineSplitter {
 public:
  static constexpr size_t kMaxLine = 16384;
  static constexpr int64_t kProgressMs = 1000;

  // Appends the lines that are complete now, without their ends.
  void Feed(std::string_view bytes, int64_t now_ms, std::vector<std::string>& lines);
  // The end of the output: what is left is a line, too.
  void Finish(std::vector<std::string>& lines);

 private:
  void TakeText(std::string_view text, int64_t now_ms, std::vector<std::string>& lines);
  void EndLine(std::vector<std::string>& lines);
  void CutLongLine(std::vector<std::string>& lines);

  std::string line_;
  bool after_return_ = false;  // the last byte was \r
  std::optional<int64_t> progress_ms_;
};

}  // namespace millrace::tools
