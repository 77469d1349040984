#include "convnets/input/pixels.h"

namespace millrace::convnets {
namespace {

// Compiled for each instruction set, without a fused multiply-add.
inline __attribute__((always_inline)) void Loop(const uint8_t* __restrict from, size_t size,
                                                float mean, float factor, float* __restrict to) {
  for (size_t i = 0; i < size; ++i) to[i] = (static_cast<float>(from[i]) - mean) * factor;
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void Avx2(const uint8_t* from, size_t size, float mean,
                                          float factor, float* to) {
  Loop(from, size, mean, factor, to);
}
#endif

}  // namespace

void BytesToFloats(const uint8_t* from, size_t size, float mean, float factor, float* to,
                   CpuLevel level) {
#if defined(__x86_64__)
  if (level >= CpuLevel::kAvx2) return Avx2(from, size, mean, factor, to);
#endif
  (void)level;
  Loop(from, size, mean, factor, to);
}

}  // namespace millrace::convnets
