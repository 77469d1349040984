// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <utility>

#include "convnets/engine/lane_kernels.h"

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif

#define LANES 8
#define TILE 14
#define INSTRUCTIONS "avx2"
#include "convnets/engine/lane_kernels_body.h"

namespace millrace::convnets {

const LaneKernels& Avx2LaneKernels() { return kKernels; }

}  // namespace millrace::convnets

#ifdef __clang__
#pragma clang attribute pop
#endif
