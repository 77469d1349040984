// SPDX-License-Identifier: Apache-2.0
#include "sparse/dense_rules.h"

#include <cmath>

#include "io/base/status.h"

namespace millrace::sparse {
namespace {

// The numbers and arrays of one step.
struct Update {
  size_t size;
  const float* __restrict g;
  float* __restrict w;
  float* __restrict m;
  float* __restrict v;
  float rate, decay, momentum, keep1, keep2, epsilon;
};

// The loops are compiled for each instruction set, without fused multiply-add, so that all versions
// round the same way.
#define INLINE inline __attribute__((always_inline))

INLINE void SgdLoop(const Update& u) {
  for (size_t i = 0; i < u.size; ++i) {
    u.w[i] -= u.rate * (u.g[i] + u.decay * u.w[i]);
  }
}

INLINE void MomentumLoop(const Update& u) {
  for (size_t i = 0; i < u.size; ++i) {
    u.m[i] = u.momentum * u.m[i] + (u.g[i] + u.decay * u.w[i]);
    u.w[i] -= u.rate * u.m[i];
  }
}

INLINE void AdamLoop(const Update& u) {
  for (size_t i = 0; i < u.size; ++i) {
    const float g = u.g[i] + u.decay * u.w[i];
    u.m[i] += u.keep1 * (g - u.m[i]);
    u.v[i] += u.keep2 * (g * g - u.v[i]);
    u.w[i] -= u.rate * u.m[i] / (std::sqrt(u.v[i]) + u.epsilon);
  }
}

INLINE void Loop(DenseRule rule, const Update& u) {
  switch (rule) {
    case DenseRule::kSgd:
      return SgdLoop(u);
    case DenseRule::kMomentum:
      return MomentumLoop(u);
    case DenseRule::kAdam:
      return AdamLoop(u);
  }
}

void RunPlain(DenseRule rule, const Update& u) { Loop(rule, u); }
#if defined(__x86_64__)
#if defined(__clang__)  // which takes no width here
#define MILLRACE_AVX512 "avx512f,avx512vl"
#else
#define MILLRACE_AVX512 "avx512f,avx512vl,prefer-vector-width=512"
#endif
__attribute__((target("avx2"))) void RunAvx2(DenseRule rule, const Update& u) { Loop(rule, u); }
__attribute__((target(MILLRACE_AVX512))) void RunAvx512(DenseRule rule, const Update& u) {
  Loop(rule, u);
}
#endif

Update NumbersAt(const DenseOptions& o, uint64_t t) {
  Update u{};
  double rate = o.RateAt(t);
  if (o.rule == DenseRule::kAdam) {
    const auto steps = static_cast<double>(t);
    rate *= std::sqrt(1 - std::pow(o.adam_beta2, steps)) / (1 - std::pow(o.adam_beta1, steps));
  }
  u.rate = static_cast<float>(rate);
  u.decay = static_cast<float>(o.weight_decay);
  u.momentum = static_cast<float>(o.momentum);
  u.keep1 = static_cast<float>(1 - o.adam_beta1);
  u.keep2 = static_cast<float>(1 - o.adam_beta2);
  u.epsilon = static_cast<float>(o.adam_epsilon);
  return u;
}

void Run(CpuLevel level, DenseRule rule, const Update& u) {
#if defined(__x86_64__)
  if (level >= CpuLevel::kAvx512) return RunAvx512(rule, u);
  if (level >= CpuLevel::kAvx2) return RunAvx2(rule, u);
#endif
  (void)level;
  RunPlain(rule, u);
}

}  // namespace

void ApplyDense(const DenseOptions& options, uint64_t t, std::span<const float> gradient,
                std::span<float> weights, std::span<float> state, CpuLevel level) {
  CHECK(gradient.size() == weights.size());
  ApplyDensePart(options, t, gradient, 0, weights, state, level);
}

void ApplyDensePart(const DenseOptions& options, uint64_t t, std::span<const float> gradient,
                    size_t begin, std::span<float> weights, std::span<float> state,
                    CpuLevel level) {
  CHECK(t > 0 && begin + gradient.size() <= weights.size());
  CHECK(state.size() == options.state_planes() * weights.size());
  Update u = NumbersAt(options, t);
  u.size = gradient.size();
  u.g = gradient.data();
  u.w = weights.data() + begin;
  if (options.state_planes() > 0) u.m = state.data() + begin;
  if (options.state_planes() > 1) u.v = state.data() + weights.size() + begin;
  Run(level, options.rule, u);
}

}  // namespace millrace::sparse
