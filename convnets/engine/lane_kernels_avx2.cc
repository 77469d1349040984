#include <cstddef>
#include <cstdint>

#include "convnets/engine/lane_kernels.h"

#pragma GCC target("avx2,fma")

#define LANES 8
#define TILE 14
#define INSTRUCTIONS "avx2"
#include "convnets/engine/lane_kernels_body.h"

namespace millrace::convnets {

const LaneKernels& Avx2LaneKernels() { return kKernels; }

}  // namespace millrace::convnets
