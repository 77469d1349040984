// The kernels of lane_kernels.h, to be included once in a file for each instruction set, behind its
// target pragma. Before that the file defines LANES (floats in a vector) and TILE (accumulators
// that a kernel may hold in registers). Nothing here may come from the standard library but plain
// functions: an inline function that is compiled for a larger instruction set must never be shared.
#pragma once

#include "convnets/engine/lane_body/convolution.h"
#include "convnets/engine/lane_body/fully_connected.h"
#include "convnets/engine/lane_body/layout.h"
#include "convnets/engine/lane_body/loss.h"
#include "convnets/engine/lane_body/pooling.h"
#include "convnets/engine/lane_body/sums.h"

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
