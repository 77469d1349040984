// SPDX-License-Identifier: Apache-2.0
#include "convnets/input/preprocess.h"

#include <algorithm>

#include "io/base/random.h"

namespace millrace::convnets {
namespace {

// The source of the net's pixels: position = begin + step * index, in pixels of the image.
struct Axis {
  float begin, step;
};

struct Crop {
  Axis x, y;
  bool mirror = false;
};

// Pixel centres are at half numbers: index i of n lies at (i + 1/2) size / n - 1/2.
Axis Resized(float begin, float size, size_t count) {
  const float step = size / static_cast<float>(count);
  return {begin + step / 2 - 0.5f, step};
}

Crop ChooseCrop(const RgbImage& image, const ImageOptions& o, uint64_t seed) {
  const auto width = static_cast<float>(image.width), height = static_cast<float>(image.height);
  if (o.resize == 0) {
    return {Resized(0, width, o.shape.width), Resized(0, height, o.shape.height)};
  }
  // The size of the crop, in pixels of the image.
  const float scale = std::min(width, height) / static_cast<float>(o.resize);
  const float w = std::min(width, scale * static_cast<float>(o.shape.width));
  const float h = std::min(height, scale * static_cast<float>(o.shape.height));
  Random random(seed);
  const auto offset = [&](float room) {
    return room * (o.augment ? static_cast<float>(random.Uniform()) : 0.5f);
  };
  const float left = offset(width - w), top = offset(height - h);
  return {Resized(left, w, o.shape.width), Resized(top, h, o.shape.height),
          o.augment && (random.Next() >> 63) != 0};
}

// The two pixels around a position, and the share of the second.
struct Mix {
  size_t first, second;
  float share;
};

Mix MixAt(const Axis& axis, size_t index, size_t size) {
  const float at = std::clamp(axis.begin + axis.step * static_cast<float>(index), 0.0f,
                              static_cast<float>(size - 1));
  const auto first = static_cast<size_t>(at);
  return {first, std::min(first + 1, size - 1), at - static_cast<float>(first)};
}

float Channel(const RgbImage& image, const Mix& x, const Mix& y, size_t c) {
  const auto at = [&](size_t row, size_t column) {
    return static_cast<float>(image.pixels[(row * image.width + column) * 3 + c]);
  };
  const float top = at(y.first, x.first) * (1 - x.share) + at(y.first, x.second) * x.share;
  const float low = at(y.second, x.first) * (1 - x.share) + at(y.second, x.second) * x.share;
  return top * (1 - y.share) + low * y.share;
}

float Value(const RgbImage& image, const Mix& x, const Mix& y, size_t c, size_t channels) {
  if (channels == 3) return Channel(image, x, y, c);
  return 0.299f * Channel(image, x, y, 0) + 0.587f * Channel(image, x, y, 1) +
         0.114f * Channel(image, x, y, 2);
}

}  // namespace

void FitImage(const RgbImage& image, const ImageOptions& o, uint64_t seed,
              std::span<float> pixels) {
  const Crop crop = ChooseCrop(image, o, seed);
  std::vector<Mix> columns;
  for (size_t j = 0; j < o.shape.width; ++j) {
    columns.push_back(MixAt(crop.x, crop.mirror ? o.shape.width - 1 - j : j, image.width));
  }
  size_t at = 0;
  for (size_t c = 0; c < o.shape.channels; ++c) {
    const float mean = o.mean.empty() ? 0 : o.mean[std::min(c, o.mean.size() - 1)];
    for (size_t i = 0; i < o.shape.height; ++i) {
      const Mix y = MixAt(crop.y, i, image.height);
      for (const Mix& x : columns) {
        pixels[at++] = (Value(image, x, y, c, o.shape.channels) - mean) / o.scale;
      }
    }
  }
}

namespace {

// Compiled for each instruction set, without a fused multiply-add.
inline __attribute__((always_inline)) void Loop(const uint8_t* __restrict from, size_t size,
                                                float mean, float factor, float* __restrict to) {
  for (size_t i = 0; i < size; ++i) to[i] = (static_cast<float>(from[i]) - mean) * factor;
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void Avx2(const uint8_t* from, size_t size, float mean,
                                          float factor, float* to) {
  Loop(from, size, mean, factor, to);
}
#endif

}  // namespace

void BytesToFloats(const uint8_t* from, size_t size, float mean, float factor, float* to,
                   CpuLevel level) {
#if defined(__x86_64__)
  if (level >= CpuLevel::kAvx2) return Avx2(from, size, mean, factor, to);
#endif
  (void)level;
  Loop(from, size, mean, factor, to);
}

}  // namespace millrace::convnets
