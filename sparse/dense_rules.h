// SPDX-License-Identifier: Apache-2.0
// The update rules of dense parameters, over whole arrays. Local store and server shards use the
// same functions. With g' = g + weight_decay w and the rate rate_t of step t:
//
//   sgd        w -= rate_t g'
//   momentum   m = momentum m + g',  w -= rate_t m
//   adam       m += (1 - b1) (g' - m),  v += (1 - b2) (g'^2 - v),
//              w -= rate_t sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + epsilon)
//
// Weights are updated independently, with the same rounding on every machine and for any partition
// of an array. A parameter that was never updated has all-zero state.
#pragma once

#include <cstdint>
#include <span>

#include "io/base/cpu.h"
#include "sparse/dense_options.h"

namespace millrace::sparse {

// Applies step `t` = 1, 2, ... `state` holds options.state_planes() consecutive arrays as long as
// `weights`.
void ApplyDense(const DenseOptions& options, uint64_t t, std::span<const float> gradient,
                std::span<float> weights, std::span<float> state,
                CpuLevel level = DetectCpuLevel());

// The same for the part [begin, begin + gradient.size()) of a parameter of weights.size() floats.
void ApplyDensePart(const DenseOptions& options, uint64_t t, std::span<const float> gradient,
                    size_t begin, std::span<float> weights, std::span<float> state,
                    CpuLevel level = DetectCpuLevel());

}  // namespace millrace::sparse
