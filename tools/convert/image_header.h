// What the first bytes of an encoded image say, without decoding it.
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

// Reads PNG's IHDR chunk, or walks JPEG's segments up to the frame header. Errors say at which byte
// what was expected and found.
Result<ImageHeader> ReadImageHeader(std::string_view bytes);

}  // namespace millrace::convert
