// The update rules, each as a slot of state a feature and a pure function of (parameters, gradient,
// slot). They are defined here once, for the local store and for a server's shard alike. All-zero
// state is the state of a feature never seen.
#pragma once

#include <cmath>

namespace millrace::sparse {

// w -= rate (g + l2 w)
struct SgdSlot {
  float w;
};
struct SgdParams {
  float rate;
  float l2;
};
inline void Step(const SgdParams& p, float g, SgdSlot& slot) {
  slot.w -= p.rate * (g + p.l2 * slot.w);
}

// Duchi, Hazan, Singer 2011, diagonal:
//   n += g^2,  w -= rate / sqrt(n + epsilon) * g
struct AdaGradSlot {
  float w, n;
};
struct AdaGradParams {
  float rate;
  float l2;
  float epsilon;  // bounds the first step of a feature whose gradients are tiny
};
inline void Step(const AdaGradParams& p, float g, AdaGradSlot& slot) {
  const float step = g + p.l2 * slot.w;
  slot.n += step * step;
  slot.w -= p.rate * step / std::sqrt(slot.n + p.epsilon);
}

// McMahan et al. 2013, FTRL-proximal, per coordinate:
//   sigma = (sqrt(n + g^2) - sqrt(n)) / rate,  z += g - sigma w,  n += g^2
//   w = 0 if |z| <= l1, else -(z - sign(z) l1) / ((beta + sqrt(n)) / rate + l2)
struct FtrlSlot {
  float w, z, n;
};
struct FtrlParams {
  float inverse_rate;  // 1 / rate: a product where the formula divides
  float beta;
  float l1;
  float l2;
};
inline void Step(const FtrlParams& p, float g, FtrlSlot& slot) {
  const float root = std::sqrt(slot.n);
  slot.n += g * g;
  const float new_root = std::sqrt(slot.n);
  slot.z += g - (new_root - root) * p.inverse_rate * slot.w;
  const float excess = std::abs(slot.z) - p.l1;
  slot.w = excess <= 0
               ? 0.0f
               : -std::copysign(excess, slot.z) / ((p.beta + new_root) * p.inverse_rate + p.l2);
}

// Kingma and Ba 2015, lazy: the moments of a feature decay only in the steps that touch it.
//   m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2,  w -= rate_t m / (sqrt(v) + epsilon)
// where rate_t = rate sqrt(1 - b2^t) / (1 - b1^t) with t the number of the step.
struct AdamSlot {
  float w, m, v;
};
struct AdamParams {
  float rate;  // rate_t of this step
  float beta1;
  float beta2;
  float epsilon;
  float l2;
};
inline void Step(const AdamParams& p, float g, AdamSlot& slot) {
  const float step = g + p.l2 * slot.w;
  slot.m += (1 - p.beta1) * (step - slot.m);
  slot.v += (1 - p.beta2) * (step * step - slot.v);
  slot.w -= p.rate * slot.m / (std::sqrt(slot.v) + p.epsilon);
}

}  // namespace millrace::sparse
