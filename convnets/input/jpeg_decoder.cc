#include <csetjmp>
#include <cstdio>
#include <string>

// jpeglib.h needs size_t and FILE to be there before it.
#include <jpeglib.h>

#include "convnets/input/image_decoder.h"

namespace millrace::convnets {
namespace {

// libjpeg reports errors by a call that must not return: it jumps back to where reading began.
struct ErrorCatcher {
  jpeg_error_mgr manager;  // first: libjpeg knows only this part
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX];
};

void Jump(j_common_ptr info) {
  auto* catcher = reinterpret_cast<ErrorCatcher*>(info->err);
  info->err->format_message(info, catcher->message);
  std::longjmp(catcher->back, 1);
}

// Keeps the first warning: damage that libjpeg would paint over.
void Note(j_common_ptr info, int level) {
  auto* catcher = reinterpret_cast<ErrorCatcher*>(info->err);
  if (level >= 0) return;
  if (info->err->num_warnings++ == 0) info->err->format_message(info, catcher->message);
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

// Between setjmp and longjmp nothing with a destructor may live here: `image` and `line` are the
// caller's.
bool Read(std::string_view bytes, size_t min_side, jpeg_decompress_struct& info,
          ErrorCatcher& catcher, RgbImage& image, std::vector<uint8_t>& line) {
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
  return catcher.manager.num_warnings == 0;
}

}  // namespace

Result<RgbImage> DecodeJpeg(std::string_view bytes, size_t min_side) {
  jpeg_decompress_struct info{};
  ErrorCatcher catcher{};
  info.err = jpeg_std_error(&catcher.manager);
  catcher.manager.error_exit = Jump;
  catcher.manager.emit_message = Note;
  RgbImage image;
  std::vector<uint8_t> line;
  const bool read = Read(bytes, min_side, info, catcher, image, line);
  jpeg_destroy_decompress(&info);
  if (read) return image;
  return Corrupt(std::string("JPEG: ") + catcher.message);
}

}  // namespace millrace::convnets
