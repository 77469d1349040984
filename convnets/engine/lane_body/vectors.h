// Vectors of LANES floats, one image a lane. A part of lane_kernels_body.h, which says how it is
// included.
#pragma once

namespace millrace::convnets {
namespace {

constexpr int L = LANES;
constexpr int K = static_cast<int>(kLaneKernel);
typedef float V __attribute__((vector_size(LANES * 4), aligned(LANES * 4), may_alias));
typedef float UnalignedV __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t VI __attribute__((vector_size(LANES * 4), may_alias));

#define INLINE inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 64")

INLINE const V* Vectors(const float* p) { return reinterpret_cast<const V*>(p); }
INLINE V* Vectors(float* p) { return reinterpret_cast<V*>(p); }
INLINE V Max(V a, V b) { return a > b ? a : b; }
INLINE V Broadcast(float x) { return V{} + x; }

}  // namespace
}  // namespace millrace::convnets
