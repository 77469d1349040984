// Passes over whole arrays: the slope of the ReLU, sums. A part of lane_kernels_body.h, which says
// how it is included.
#pragma once

#include "convnets/engine/lane_body/layout.h"

namespace millrace::convnets {
namespace {

void ReluBackward(const float* y, size_t size, float* dy) {
  for (size_t at = 0; at < size / L; ++at) {
    Vectors(dy)[at] = Vectors(y)[at] > V{} ? Vectors(dy)[at] : V{};
  }
}

void Add(const float* x, size_t size, float* sums) {
  for (size_t at = 0; at < size / L; ++at) Vectors(sums)[at] += Vectors(x)[at];
}

void SumLanes(const float* lanes, size_t count, float* sums) {
  size_t at = 0;
  for (; at + L <= count; at += L) {
    V r[L];
    UNROLL for (int j = 0; j < L; ++j) r[j] = Vectors(lanes)[at + static_cast<size_t>(j)];
    Transpose(r);
    V sum = r[0];
    UNROLL for (int j = 1; j < L; ++j) sum += r[j];
    *reinterpret_cast<UnalignedV*>(sums + at) = sum;
  }
  for (; at < count; ++at) {
    float sum = 0;
    for (int n = 0; n < L; ++n) sum += Vectors(lanes)[at][n];
    sums[at] = sum;
  }
}

}  // namespace
}  // namespace millrace::convnets
