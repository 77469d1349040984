// Encoded images to pixels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "io/base/status.h"

namespace millrace::convnets {

struct RgbImage {
  size_t width = 0, height = 0;
  std::vector<uint8_t> pixels;  // [height][width][3]
};

// JPEG (grey, RGB, CMYK) and PNG (grey, palette, alpha: shown on black), told apart by their first
// bytes. A JPEG may come at 1/2, 1/4 or 1/8 of its size as long as neither side gets below
// `min_side` (0: always whole). What libjpeg or libpng complains about is an error, even if they
// could go on, and so are images of more than 2^26 pixels.
Result<RgbImage> DecodeImage(std::string_view bytes, size_t min_side);
Result<RgbImage> DecodeJpeg(std::string_view bytes, size_t min_side);
Result<RgbImage> DecodePng(std::string_view bytes);

constexpr size_t kMaxPixels = size_t{1} << 26;

}  // namespace millrace::convnets
