// SPDX-License-Identifier: Apache-2.0
// The kernels of lane_kernels.h. A .cc file per instruction set includes this header once, after
// its target pragma and after it has defined LANES (floats per vector), TILE (accumulators that fit
// into registers) and INSTRUCTIONS. This code must not use inline functions of the standard
// library: a copy compiled for a larger instruction set must not be shared with other files.
#pragma once

#include "convnets/engine/lane_kernels/convolution.h"
#include "convnets/engine/lane_kernels/fully_connected.h"
#include "convnets/engine/lane_kernels/vectors.h"

namespace millrace::convnets {
namespace {

constexpr LaneKernels kKernels = {
    .lanes = L,
    .instructions = INSTRUCTIONS,
    .pack = Pack,
    .unpack = Unpack,
    .conv_forward = ConvForward,
    .conv_backward_weights = ConvBackwardWeights,
    .conv_backward_data = ConvBackwardData,
    .pool_forward = PoolForward,
    .pool_backward = PoolBackward,
    .fc_forward = FcForward,
    .fc_backward_weights = FcBackwardWeights,
    .fc_backward_data = FcBackwardData,
    .relu_backward = ReluBackward,
    .softmax = Softmax,
    .add = Add,
    .sum_lanes = SumLanes,
};

}  // namespace
}  // namespace millrace::convnets
