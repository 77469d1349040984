// From a decoded image to the net's input: crop, resize, mirror, subtract the mean.
#pragma once

#include <cstdint>
#include <span>

#include "convnets/input/image_decoder.h"
#include "convnets/input/image_set.h"

namespace millrace::convnets {

// With options.resize the shorter side becomes that long, and a part of the net's shape is cut out:
// at random, and mirrored every other time, if options.augment; else the middle. Without it the
// whole image is resized to the shape. Bilinear. One channel is the luminance (BT.601).
void FitImage(const RgbImage& image, const ImageOptions& options, uint64_t seed,
              std::span<float> pixels);

}  // namespace millrace::convnets
