#include "convnets/input/resize.h"

#include <algorithm>

#include "io/base/random.h"

namespace millrace::convnets {
namespace {

// Where the net's pixels come from: place = begin + step * index, in pixels of the image.
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
  // In pixels of the image, the part to be cut out.
  const float scale = std::min(width, height) / static_cast<float>(o.resize);
  const float w = std::min(width, scale * static_cast<float>(o.shape.width));
  const float h = std::min(height, scale * static_cast<float>(o.shape.height));
  Random random(seed);
  const auto place = [&](float room) {
    return room * (o.augment ? static_cast<float>(random.Uniform()) : 0.5f);
  };
  const float left = place(width - w), top = place(height - h);
  return {Resized(left, w, o.shape.width), Resized(top, h, o.shape.height),
          o.augment && (random.Next() >> 63) != 0};
}

// The two pixels around a place, and the share of the second.
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

}  // namespace millrace::convnets
