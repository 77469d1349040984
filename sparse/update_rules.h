// The update rules, each as a slot of state a feature and a pure function of (parameters, gradient,
// slot). They are defined here once, for the local store and for a server's shard alike, and for
// one feature (F = float) or four (F = Float4). All-zero state is the state of a feature never
// seen.
#pragma once

#include "sparse/float4.h"

namespace millrace::sparse {

// w -= rate (g + l2 w)
template <typename F>
struct SgdState {
  F w;
};
using SgdSlot = SgdState<float>;
struct SgdParams {
  float rate;
  float l2;
};
template <typename F>
void Step(const SgdParams& p, F g, SgdState<F>& slot) {
  slot.w -= p.rate * (g + p.l2 * slot.w);
}

// Duchi, Hazan, Singer 2011, diagonal:
//   n += g^2,  w -= rate / sqrt(n + epsilon) * g
template <typename F>
struct AdaGradState {
  F w, n;
};
using AdaGradSlot = AdaGradState<float>;
struct AdaGradParams {
  float rate;
  float l2;
  float epsilon;  // bounds the first step of a feature whose gradients are tiny
};
template <typename F>
void Step(const AdaGradParams& p, F g, AdaGradState<F>& slot) {
  const F step = g + p.l2 * slot.w;
  slot.n += step * step;
  slot.w -= p.rate * step / Sqrt(slot.n + p.epsilon);
}

// McMahan et al. 2013, FTRL-proximal, per coordinate:
//   sigma = (sqrt(n + g^2) - sqrt(n)) / rate,  z += g - sigma w,  n += g^2
//   w = 0 if |z| <= l1, else -(z - sign(z) l1) / ((beta + sqrt(n)) / rate + l2)
template <typename F>
struct FtrlState {
  F w, z, n;
};
using FtrlSlot = FtrlState<float>;
struct FtrlParams {
  float inverse_rate;  // 1 / rate: a product where the formula divides
  float beta;
  float l1;
  float l2;
};
// The weight that z and n stand for; root is sqrt(n).
template <typename F>
F FtrlWeight(const FtrlParams& p, F z, F root) {
  const F excess = Abs(z) - p.l1;
  const F weight = -CopySign(excess, z) / ((p.beta + root) * p.inverse_rate + p.l2);
  return Select(excess <= 0, F{}, weight);
}
template <typename F>
void Step(const FtrlParams& p, F g, FtrlState<F>& slot) {
  const F root = Sqrt(slot.n);
  slot.n += g * g;
  const F new_root = Sqrt(slot.n);
  slot.z += g - (new_root - root) * p.inverse_rate * slot.w;
  slot.w = FtrlWeight(p, slot.z, new_root);
}

// Kingma and Ba 2015, lazy: the moments of a feature decay only in the steps that touch it.
//   m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2,  w -= rate_t m / (sqrt(v) + epsilon)
// where rate_t = rate sqrt(1 - b2^t) / (1 - b1^t) with t the number of the step.
template <typename F>
struct AdamState {
  F w, m, v;
};
using AdamSlot = AdamState<float>;
struct AdamParams {
  float rate;  // rate_t of this step
  float beta1;
  float beta2;
  float epsilon;
  float l2;
};
template <typename F>
void Step(const AdamParams& p, F g, AdamState<F>& slot) {
  const F step = g + p.l2 * slot.w;
  slot.m += (1 - p.beta1) * (step - slot.m);
  slot.v += (1 - p.beta2) * (step * step - slot.v);
  slot.w -= p.rate * slot.m / (Sqrt(slot.v) + p.epsilon);
}

}  // namespace millrace::sparse
