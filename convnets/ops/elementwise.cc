#include "convnets/ops/elementwise.h"

#include "io/base/random.h"

namespace millrace::convnets {
namespace {

constexpr uint64_t kDropoutStream = 0xd509;

}  // namespace

void ReluForward(std::span<const float> x, std::span<float> y) {
  for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] > 0 ? x[i] : 0.0f;
}

void ReluBackward(std::span<const float> y, std::span<const float> dy, std::span<float> dx) {
  for (size_t i = 0; i < y.size(); ++i) dx[i] = y[i] > 0 ? dy[i] : 0.0f;
}

uint64_t DropoutSeed(uint64_t seed, uint64_t step, size_t layer) {
  return DeriveSeed(DeriveSeed(seed, kDropoutStream, step), layer);
}

void Dropout(double rate, uint64_t mask_seed, size_t place, std::span<const float> x,
             std::span<float> y) {
  const auto scale = static_cast<float>(1 / (1 - rate));
  const auto drop_below = static_cast<uint64_t>(rate * 0x1p32);
  for (size_t i = 0; i < x.size(); ++i) {
    const uint64_t bits = Mix64(mask_seed + (place + i) * 0x9e3779b97f4a7c15u) >> 32;
    y[i] = bits < drop_below ? 0.0f : x[i] * scale;
  }
}

}  // namespace millrace::convnets
