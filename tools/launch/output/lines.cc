// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/output/lines.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace millrace::launch {
namespace {

// The size of the multi-byte UTF-8 character at the start of `bytes`. 0 if there is none, or if it
// is one of the control characters U+0080 to U+009F.
size_t CharacterSize(std::string_view bytes) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const size_t size = byte(0) >= 0xF0 ? 4 : byte(0) >= 0xE0 ? 3 : 2;
  if (byte(0) < 0xC2 || byte(0) > 0xF4 || bytes.size() < size) return 0;
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const bool overlong = (byte(0) == 0xE0 && byte(1) < 0xA0) || (byte(0) == 0xF0 && byte(1) < 0x90);
  const bool not_unicode =
      (byte(0) == 0xED && byte(1) >= 0xA0) || (byte(0) == 0xF4 && byte(1) >= 0x90);
  const bool is_control = byte(0) == 0xC2 && byte(1) < 0xA0;
  return overlong || not_unicode || is_control ? 0 : size;
}

bool IsPlain(char c) { return c == '\t' || (c >= 0x20 && c < 0x7F); }

void AppendEscape(std::string& text, char c) {
  constexpr char kDigits[] = "0123456789abcdef";
  const auto byte = static_cast<uint8_t>(c);
  text += "\\x";
  text += kDigits[byte >> 4];
  text += kDigits[byte & 15];
}

}  // namespace

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

std::string Printable(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const auto unsafe = std::find_if_not(bytes.begin(), bytes.end(), IsPlain);
    const auto plain = static_cast<size_t>(unsafe - bytes.begin());
    text += bytes.substr(0, plain);
    bytes.remove_prefix(plain);
    if (bytes.empty()) break;
    const size_t size = CharacterSize(bytes);
    if (size > 0) {
      text += bytes.substr(0, size);
    } else {
      AppendEscape(text, bytes[0]);
    }
    bytes.remove_prefix(std::max<size_t>(size, 1));
  }
  return text;
}

}  // namespace millrace::launch
