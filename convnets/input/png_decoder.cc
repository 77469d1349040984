#include <png.h>

#include <string>

#include "convnets/input/image_decoder.h"

namespace millrace::convnets {

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
