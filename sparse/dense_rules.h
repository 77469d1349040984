// The update rules of dense parameters, over whole arrays: defined here once, for the local store
// and for a server's shard alike. g' = g + weight_decay w, and rate_t is the rate of step t:
//
//   sgd        w -= rate_t g'
//   momentum   m = momentum m + g',  w -= rate_t m
//   adam       m += (1 - b1) (g' - m),  v += (1 - b2) (g'^2 - v),
//              w -= rate_t sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + epsilon)
//
// Each weight is updated by itself, by the same roundings on every machine and however an array is
// cut into pieces. All-zero state is that of a parameter never updated.
#pragma once

#include <cstdint>
#include <span>

#include "io/base/cpu.h"
#include "sparse/dense_options.h"

namespace millrace::sparse {

// Step `t` (from 1 on). `state` holds options.state_planes() arrays as long as `weights`, one
// behind the other.
void ApplyDense(const DenseOptions& options, uint64_t t, std::span<const float> gradient,
                std::span<float> weights, std::span<float> state,
                CpuLevel level = DetectCpuLevel());

// The same for the part [begin, begin + gradient.size()) of a parameter of weights.size() numbers.
void ApplyDensePart(const DenseOptions& options, uint64_t t, std::span<const float> gradient,
                    size_t begin, std::span<float> weights, std::span<float> state,
                    CpuLevel level = DetectCpuLevel());

}  // namespace millrace::sparse
