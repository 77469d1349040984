// SPDX-License-Identifier: Apache-2.0
#include "ps/wire/float_codec.h"

#include <cstdint>
#include <cstring>

#include "io/base/half.h"

namespace millrace::ps {
namespace {

constexpr uint8_t kBf16 = 1, kZstd = 2;

void Split(std::string_view bytes, size_t width, std::string& planes) {
  const size_t count = bytes.size() / width;
  planes.resize(bytes.size());
  for (size_t plane = 0; plane < width; ++plane) {
    for (size_t i = 0; i < count; ++i) planes[plane * count + i] = bytes[i * width + plane];
  }
}

void Join(std::string_view planes, size_t width, char* bytes) {
  const size_t count = planes.size() / width;
  for (size_t plane = 0; plane < width; ++plane) {
    for (size_t i = 0; i < count; ++i) bytes[i * width + plane] = planes[plane * count + i];
  }
}

}  // namespace

io::ZstdBlock& FloatCodec::zstd() {
  if (!zstd_) zstd_ = std::make_unique<io::ZstdBlock>();
  return *zstd_;
}

Status FloatCodec::Encode(std::span<const float> numbers, FloatFormat format, std::string& out) {
  const size_t width = format.bf16 ? 2 : 4;
  std::string_view bytes(reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes());
  if (format.bf16) {
    halves_.resize(2 * numbers.size());
    for (size_t i = 0; i < numbers.size(); ++i) {
      const uint16_t half = ToBf16(numbers[i]);
      std::memcpy(halves_.data() + 2 * i, &half, 2);
    }
    bytes = halves_;
  }
  out.assign(1, static_cast<char>((format.bf16 ? kBf16 : 0) | (format.zstd ? kZstd : 0)));
  if (!format.zstd) {
    out.append(bytes);
    return {};
  }
  Split(bytes, width, planes_);
  return zstd().Compress(planes_, out);
}

size_t FloatCodec::RawWidth(std::string_view bytes) {
  if (bytes.empty() || (static_cast<uint8_t>(bytes[0]) & kZstd)) return 0;
  return static_cast<uint8_t>(bytes[0]) & kBf16 ? 2 : 4;
}

Status FloatCodec::Decode(std::string_view bytes, std::span<float> numbers) {
  if (bytes.empty()) return Corrupt("numbers: expected a format byte, found nothing");
  const auto format = static_cast<uint8_t>(bytes[0]);
  if (format > (kBf16 | kZstd)) {
    return Corrupt("numbers: expected a format from 0 to 3, found " + std::to_string(format));
  }
  bytes.remove_prefix(1);
  const size_t width = format & kBf16 ? 2 : 4;
  const size_t size = width * numbers.size();
  if (format & kZstd) {
    RETURN_IF_ERROR(zstd().Decompress(bytes, size, planes_));
    halves_.resize(size);
    Join(planes_, width, halves_.data());
    bytes = halves_;
  }
  if (bytes.size() != size) {
    return Corrupt("numbers: expected " + std::to_string(size) + " bytes, found " +
                   std::to_string(bytes.size()));
  }
  if (width == 4) {
    if (size > 0) std::memcpy(numbers.data(), bytes.data(), size);
    return {};
  }
  for (size_t i = 0; i < numbers.size(); ++i) {
    uint16_t half;
    std::memcpy(&half, bytes.data() + 2 * i, 2);
    numbers[i] = FromBf16(half);
  }
  return {};
}

}  // namespace millrace::ps
