// Ops that treat every number by itself: ReLU and dropout. They may run in place.
//
//   relu      y = max(x, 0),  dx = y > 0 ? dy : 0
//   dropout   y = keep ? x / (1 - rate) : 0, the same for dy; where `keep` is a function of a seed
//             and the number's place alone, so that a mask is never stored and a rerun drops alike
#pragma once

#include <cstdint>
#include <span>

namespace millrace::convnets {

void ReluForward(std::span<const float> x, std::span<float> y);
void ReluBackward(std::span<const float> y, std::span<const float> dy, std::span<float> dx);

// The seed of a step's mask of a layer.
uint64_t DropoutSeed(uint64_t seed, uint64_t step, size_t layer);
// Forward and backward. `place`: of x[0] in the layer.
void Dropout(double rate, uint64_t mask_seed, size_t place, std::span<const float> x,
             std::span<float> y);

}  // namespace millrace::convnets
