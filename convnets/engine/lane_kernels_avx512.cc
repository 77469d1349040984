#include <cstddef>
#include <cstdint>

#include "convnets/engine/lane_kernels.h"

#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,prefer-vector-width=512")

#define LANES 16
#define TILE 28
#define INSTRUCTIONS "avx512"
#include "convnets/engine/lane_kernels_body.h"

namespace millrace::convnets {

const LaneKernels& Avx512LaneKernels() { return kKernels; }

}  // namespace millrace::convnets
