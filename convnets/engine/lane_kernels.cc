#include "convnets/engine/lane_kernels.h"

namespace millrace::convnets {

const LaneKernels& LaneKernelsFor(CpuLevel level) {
  if (level >= CpuLevel::kAvx512) return Avx512LaneKernels();
  if (level >= CpuLevel::kAvx2) return Avx2LaneKernels();
  return PlainLaneKernels();
}

}  // namespace millrace::convnets
