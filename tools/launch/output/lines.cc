// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/output/lines.h"

#include <algorithm>
#include <utility>

namespace millrace::launch {

void LineSplitter::Feed(std::string_view bytes, int64_t now_ms, std::vector<std::string>& lines) {
  while (!bytes.empty()) {
    const size_t end = std::min(bytes.find_first_of("\r\n"), bytes.size());
    if (end > 0) AddText(bytes.substr(0, end), now_ms, lines);
    if (end == bytes.size()) return;
    if (bytes[end] == '\n') EndLine(lines);
    after_return_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
  }
}

void LineSplitter::Finish(std::vector<std::string>& lines) {
  if (!line_.empty()) EndLine(lines);
  after_return_ = false;
}

void LineSplitter::AddText(std::string_view text, int64_t now_ms, std::vector<std::string>& lines) {
  if (std::exchange(after_return_, false)) {
    if (!line_.empty() && (!progress_ms_ || now_ms - *progress_ms_ >= kProgressMs)) {
      progress_ms_ = now_ms;
      EndLine(lines);
    }
    line_.clear();
  }
  while (!text.empty()) {
    const size_t room = kMaxLine - line_.size();
    line_ += text.substr(0, room);
    text.remove_prefix(std::min(room, text.size()));
    if (line_.size() == kMaxLine && !text.empty()) CutLongLine(lines);
  }
}

void LineSplitter::EndLine(std::vector<std::string>& lines) {
  lines.push_back(std::exchange(line_, {}));
}

void LineSplitter::CutLongLine(std::vector<std::string>& lines) {
  // The first byte of a character is not 10xxxxxx. At most three bytes of this form follow it.
  size_t cut = line_.size();
  for (size_t back = 1; back <= 4; ++back) {
    const auto byte = static_cast<unsigned char>(line_[line_.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;
    if (byte >= 0xC0) cut = line_.size() - back;
    break;
  }
  std::string rest = line_.substr(cut);
  line_.resize(cut);
  EndLine(lines);
  line_ = std::move(rest);
}

}  // namespace millrace::launch
