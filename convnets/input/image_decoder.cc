// SPDX-License-Identifier: Apache-2.0
#include "convnets/input/image_decoder.h"

#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <string>

// jpeglib.h requires the declarations of size_t and FILE.
#include <jpeglib.h>

namespace millrace::convnets {
namespace {

// libjpeg reports errors by a call that must not return: it jumps back to the start of Read.
struct ErrorCatcher {
  jpeg_error_mgr manager;  // first: libjpeg gets a pointer to it
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX];
};

void Jump(j_common_ptr info) {
  auto* catcher = reinterpret_cast<ErrorCatcher*>(info->err);
  info->err->format_message(info, catcher->message);
  std::longjmp(catcher->back, 1);
}

// A warning is an error: libjpeg would conceal the corruption, and go on with a file that claims
// more and more scans.
void JumpOnWarning(j_common_ptr info, int level) {
  if (level < 0) Jump(info);
}

// Each scan of a progressive image costs a pass over all of its blocks, and may have a few bytes.
void LimitScans(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMaxScans) return;
  auto* catcher = reinterpret_cast<ErrorCatcher*>(info->err);
  std::snprintf(catcher->message, sizeof catcher->message, "expected at most %d scans, found more",
                kMaxScans);
  std::longjmp(catcher->back, 1);
}

unsigned ScaleDenominator(const jpeg_decompress_struct& info, size_t min_side) {
  const size_t side = info.image_width < info.image_height ? info.image_width : info.image_height;
  for (const unsigned d : {8u, 4u, 2u}) {
    if (min_side > 0 && side / d >= min_side) return d;
  }
  return 1;
}

// Adobe's CMYK is inverted: 255 is no ink.
void CmykToRgb(const uint8_t* cmyk, size_t width, bool inverted, uint8_t* rgb) {
  for (size_t x = 0; x < width; ++x, cmyk += 4, rgb += 3) {
    for (size_t c = 0; c < 3; ++c) {
      const unsigned ink = inverted ? cmyk[c] : 255u - cmyk[c];
      const unsigned black = inverted ? cmyk[3] : 255u - cmyk[3];
      rgb[c] = static_cast<uint8_t>(ink * black / 255);
    }
  }
}

// No object with a destructor may live here between setjmp and longjmp, so the caller owns `image`
// and `line`.
bool Read(std::string_view bytes, size_t min_side, jpeg_decompress_struct& info,
          jpeg_progress_mgr& progress, ErrorCatcher& catcher, RgbImage& image,
          std::vector<uint8_t>& line) {
  if (setjmp(catcher.back)) return false;
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&info, TRUE);
  if (size_t{info.image_width} * info.image_height > kMaxPixels) {
    std::snprintf(catcher.message, sizeof catcher.message,
                  "expected at most %zu pixels, found %u x %u", kMaxPixels, info.image_width,
                  info.image_height);
    return false;
  }
  info.progress = &progress;
  const bool cmyk = info.num_components == 4;
  info.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
  info.scale_num = 1;
  info.scale_denom = ScaleDenominator(info, min_side);
  jpeg_start_decompress(&info);
  image.width = info.output_width;
  image.height = info.output_height;
  image.pixels.resize(image.width * image.height * 3);
  line.resize(image.width * 4);
  while (info.output_scanline < info.output_height) {
    uint8_t* row = image.pixels.data() + info.output_scanline * image.width * 3;
    JSAMPROW target = cmyk ? line.data() : row;
    jpeg_read_scanlines(&info, &target, 1);
    if (cmyk) CmykToRgb(line.data(), image.width, info.saw_Adobe_marker, row);
  }
  jpeg_finish_decompress(&info);
  return true;
}

}  // namespace

Result<RgbImage> DecodeJpeg(std::string_view bytes, size_t min_side) {
  jpeg_decompress_struct info{};
  ErrorCatcher catcher{};
  info.err = jpeg_std_error(&catcher.manager);
  catcher.manager.error_exit = Jump;
  catcher.manager.emit_message = JumpOnWarning;
  jpeg_progress_mgr progress{};
  progress.progress_monitor = LimitScans;
  RgbImage image;
  std::vector<uint8_t> line;
  const bool read = Read(bytes, min_side, info, progress, catcher, image, line);
  jpeg_destroy_decompress(&info);
  if (read) return image;
  return Corrupt(std::string("JPEG: ") + catcher.message);
}

Result<RgbImage> DecodePng(std::string_view bytes) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  const auto failed = [&] {
    const std::string message = png.message;
    png_image_free(&png);
    return Corrupt("PNG: " + message);
  };
  if (!png_image_begin_read_from_memory(&png, bytes.data(), bytes.size())) return failed();
  if (size_t{png.width} * png.height > kMaxPixels) {
    png_image_free(&png);
    return Corrupt("PNG: expected at most " + std::to_string(kMaxPixels) + " pixels, found " +
                   std::to_string(png.width) + " x " + std::to_string(png.height));
  }
  png.format = PNG_FORMAT_RGB;
  RgbImage image;
  image.width = png.width;
  image.height = png.height;
  image.pixels.resize(PNG_IMAGE_SIZE(png));
  const png_color black = {0, 0, 0};
  if (!png_image_finish_read(&png, &black, image.pixels.data(), 0, nullptr)) return failed();
  if (PNG_IMAGE_FAILED(png) || png.warning_or_error != 0) return failed();
  return image;
}

Result<RgbImage> DecodeImage(std::string_view bytes, size_t min_side) {
  if (bytes.starts_with("\xff\xd8")) return DecodeJpeg(bytes, min_side);
  if (bytes.starts_with("\x89PNG")) return DecodePng(bytes);
  return Corrupt("expected the first bytes of a JPEG or PNG image, found others");
}

}  // namespace millrace::convnets
