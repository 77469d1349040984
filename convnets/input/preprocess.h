// SPDX-License-Identifier: Apache-2.0
// From a decoded image to the net's input: crop, resize, mirror, subtract the mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "convnets/input/image_decoder.h"
#include "convnets/input/image_set.h"
#include "io/base/cpu.h"

namespace millrace::convnets {

// With options.resize the shorter side is scaled to that length and a part of the net's shape is
// cropped: at random and mirrored with probability 1/2 if options.augment, else the centre. Without
// options.resize the whole image is scaled to the shape. Bilinear. One channel is the luminance
// (BT.601).
void FitImage(const RgbImage& image, const ImageOptions& options, uint64_t seed,
              std::span<float> pixels);

// to[i] = (from[i] - mean) * factor, with the same bits on every instruction set.
void BytesToFloats(const uint8_t* from, size_t size, float mean, float factor, float* to,
                   CpuLevel level = DetectCpuLevel());

}  // namespace millrace::convnets
