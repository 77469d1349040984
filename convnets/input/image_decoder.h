// SPDX-License-Identifier: Apache-2.0
// Decodes JPEG and PNG images.
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

// Decodes JPEG (grey, RGB, CMYK) or PNG (grey, palette, alpha on black), depending on the first
// bytes. A JPEG may be scaled to 1/2, 1/4 or 1/8 of its size as long as neither side gets below
// `min_side` (0: never scaled). Every warning of libjpeg or libpng is an error, and so is an image
// of more than kMaxPixels or, in a progressive JPEG, more than kMaxScans (encoders write about 10).
Result<RgbImage> DecodeImage(std::string_view bytes, size_t min_side);
Result<RgbImage> DecodeJpeg(std::string_view bytes, size_t min_side);
Result<RgbImage> DecodePng(std::string_view bytes);

constexpr size_t kMaxPixels = size_t{1} << 26;
constexpr int kMaxScans = 100;

}  // namespace millrace::convnets
