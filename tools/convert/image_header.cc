#include "tools/convert/image_header.h"

#include <string>

namespace millrace::convert {
namespace {

constexpr std::string_view kPngSignature = "\x89PNG\r\n\x1a\n";
constexpr std::string_view kJpegStart = "\xff\xd8";

uint32_t LoadBigEndian(std::string_view bytes, size_t at, size_t size) {
  uint32_t number = 0;
  for (size_t i = 0; i < size; ++i)
    number = number << 8 | static_cast<unsigned char>(bytes[at + i]);
  return number;
}

Status Problem(const char* format, size_t at, const std::string& expected,
               const std::string& found) {
  return Corrupt(std::string(format) + ", byte " + std::to_string(at) + ": expected " + expected +
                 ", found " + found);
}

Result<ImageHeader> Sized(const char* format, size_t at, uint32_t height, uint32_t width) {
  if (height > 0 && width > 0) return ImageHeader{format, height, width};
  return Problem(format, at, "a height and a width above 0",
                 std::to_string(height) + " and " + std::to_string(width));
}

// Signature (8 bytes), length of the chunk (4), "IHDR" (4), width (4), height (4).
Result<ImageHeader> ReadPng(std::string_view bytes) {
  constexpr size_t kChunkName = 12, kWidth = 16, kHeight = 20, kEnd = 24;
  if (bytes.size() < kEnd || bytes.substr(kChunkName, 4) != "IHDR") {
    return Problem("png", kChunkName, "an IHDR chunk",
                   bytes.size() < kEnd ? "the end of the file" : "another one");
  }
  return Sized("png", kWidth, LoadBigEndian(bytes, kHeight, 4), LoadBigEndian(bytes, kWidth, 4));
}

// SOF0 to SOF15 but for DHT (c4), JPG (c8) and DAC (cc), which lie between them.
bool IsFrameHeader(unsigned char marker) {
  return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

// Markers that stand alone: TEM and RST0 to RST7.
bool HasNoLength(unsigned char marker) {
  return marker == 0x01 || (marker >= 0xd0 && marker <= 0xd7);
}

// Segments are ff, marker, length (2 bytes, counting itself), content. A frame header's content is
// precision (1), height (2), width (2), ...
Result<ImageHeader> ReadJpeg(std::string_view bytes) {
  size_t at = kJpegStart.size();
  while (true) {
    if (at + 4 > bytes.size()) return Problem("jpeg", at, "a frame header", "the end of the file");
    if (bytes[at] != '\xff') return Problem("jpeg", at, "a marker (ff)", "another byte");
    const auto marker = static_cast<unsigned char>(bytes[at + 1]);
    if (marker == 0xff) {  // fill byte
      ++at;
      continue;
    }
    if (HasNoLength(marker)) {
      at += 2;
      continue;
    }
    if (marker == 0xda || marker == 0xd9) {
      return Problem("jpeg", at, "a frame header before the scan", "none");
    }
    const uint32_t length = LoadBigEndian(bytes, at + 2, 2);
    if (length < 2)
      return Problem("jpeg", at + 2, "a segment of 2 bytes or more", std::to_string(length));
    if (IsFrameHeader(marker)) {
      if (length < 7 || at + 9 > bytes.size()) {
        return Problem("jpeg", at, "a whole frame header", "a part of one");
      }
      return Sized("jpeg", at, LoadBigEndian(bytes, at + 5, 2), LoadBigEndian(bytes, at + 7, 2));
    }
    at += 2 + length;
  }
}

}  // namespace

Result<ImageHeader> ReadImageHeader(std::string_view bytes) {
  if (bytes.starts_with(kPngSignature)) return ReadPng(bytes);
  if (bytes.starts_with(kJpegStart)) return ReadJpeg(bytes);
  return Corrupt("expected a JPEG or PNG file, found neither signature in its first bytes");
}

}  // namespace millrace::convert
