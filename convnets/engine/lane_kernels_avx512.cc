// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <utility>

#include "convnets/engine/lane_kernels.h"

#ifdef __clang__
#pragma clang attribute push( \
    __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,prefer-vector-width=512")
#endif

#define LANES 16
#define TILE 28
#define INSTRUCTIONS "avx512"
#include "convnets/engine/lane_kernels_body.h"

namespace millrace::convnets {

const LaneKernels& Avx512LaneKernels() { return kKernels; }

}  // namespace millrace::convnets

#ifdef __clang__
#pragma clang attribute pop
#endif
