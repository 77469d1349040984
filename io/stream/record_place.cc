#include "io/stream/record_place.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <vector>

namespace millrace::io {
namespace {

std::optional<uint64_t> LineAt(const RecordOrigin& origin) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(*origin.path, ignored)) return std::nullopt;
  const Result<OpenedSource> source = OpenSource(*origin.path);
  if (!source.ok()) return std::nullopt;
  std::vector<char> bytes(256 << 10);
  uint64_t line = 1;
  for (uint64_t at = 0; at < origin.offset;) {
    const size_t size = std::min<uint64_t>(bytes.size(), origin.offset - at);
    size_t got = 0;
    if (!source->bytes->Read({bytes.data(), size}, &got).ok() || got == 0) return std::nullopt;
    line += static_cast<uint64_t>(
        std::count(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(got), '\n'));
    at += got;
  }
  return line;
}

}  // namespace

std::string PlaceText(const RecordOrigin& origin, Framing framing) {
  std::string text = *origin.path;
  if (framing == Framing::kLines) {
    if (const std::optional<uint64_t> line = LineAt(origin)) text += ":" + std::to_string(*line);
  }
  return text + ": offset " + std::to_string(origin.offset) + ": ";
}

}  // namespace millrace::io
