// The format and size of an encoded image, from its first bytes.
#pragma once

#include <cstdint>
#include <string_view>

#include "io/base/status.h"

namespace millrace::convert {

struct ImageHeader {
  const char* format = "";  // "jpeg" or "png", by the content
  uint32_t height = 0;
  uint32_t width = 0;
};

// Reads PNG's IHDR chunk, or walks JPEG's segments up to the frame header. Errors have the offset,
// what was expected and what was found.
Result<ImageHeader> ReadImageHeader(std::string_view bytes);

}  // namespace millrace::convert
