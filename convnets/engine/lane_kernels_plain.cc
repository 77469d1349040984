// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <utility>

#include "convnets/engine/lane_kernels.h"

#define LANES 4
#define TILE 12
#define INSTRUCTIONS "plain"
#include "convnets/engine/lane_kernels_body.h"

namespace millrace::convnets {

const LaneKernels& PlainLaneKernels() { return kKernels; }

}  // namespace millrace::convnets
