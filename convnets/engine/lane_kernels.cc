#include "convnets/engine/lane_kernels.h"

namespace millrace::convnets {

const LaneKernels& LaneKernelsFor(io::CpuLevel level) {
  if (level >= io::CpuLevel::kAvx512) return Avx512LaneKernels();
  if (level >= io::CpuLevel::kAvx2) return Avx2LaneKernels();
  return PlainLaneKernels();
}

}  // namespace millrace::convnets
