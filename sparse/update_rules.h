// SPDX-License-Identifier: Apache-2.0
// The update rules: each is a slot (the state of one feature) and a pure function of (parameters,
// gradient, slot). Local store and server shards use the same functions, for one feature (F =
// float) or four (F = Float4). A feature that was never seen has all-zero state.
//
// A dense-index table keeps slots in a packed form, without numbers that the others determine.
// Memory matters: with 33 million features each float takes 135 MB, which must be zeroed and which
// misses the caches.
//
//   rule      packed     left out
//   SGD       w
//   AdaGrad   w, n
//   FTRL      z, n       w, a function of z and n
//   Adam      w, m, v
//
// Except for SGD, the last float is a sum or a mean of squares. Its sign bit is never set, and
// tagged_step.h uses it.
#pragma once

#include <array>
#include <cstddef>

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
//   n += g^2,  w -= rate / sqrt(offset + n) * g
// n starts at 0 also where the sum of squares should start at another number (initial): the offset
// is initial + epsilon.
template <typename F>
struct AdaGradState {
  F w, n;
};
using AdaGradSlot = AdaGradState<float>;
struct AdaGradParams {
  float rate;
  float l2;
  float offset;  // bounds the first step of a feature whose gradients are tiny
};
template <typename F>
void Step(const AdaGradParams& p, F g, AdaGradState<F>& slot) {
  const F step = g + p.l2 * slot.w;
  slot.n += step * step;
  slot.w -= p.rate * step / Sqrt(slot.n + p.offset);
}

// McMahan et al. 2013, FTRL-proximal, per coordinate:
//   sigma = (sqrt(n + g^2) - sqrt(n)) / rate,  z += g - sigma w,  n += g^2
//   w = 0 if |z| <= l1, else -(z - sign(z) l1) / ((beta + sqrt(n)) / rate + l2)
template <typename F>
struct FtrlState {
  F w, z, n;
};
using FtrlSlot = FtrlState<float>;
// P: float, or a vector with the numbers of several models (ftrl_lanes.h), one per lane of F.
template <typename P>
struct FtrlParamsOf {
  P inverse_rate;  // 1 / rate: a product where the formula divides
  P beta;
  P l1;
  P l2;
};
using FtrlParams = FtrlParamsOf<float>;
// The weight as a function of z and n; root is sqrt(n).
template <typename P, typename F>
F FtrlWeight(const FtrlParamsOf<P>& p, F z, F root) {
  const F excess = Abs(z) - p.l1;
  const F weight = -CopySign(excess, z) / ((p.beta + root) * p.inverse_rate + p.l2);
  return Select(excess <= 0, F{}, weight);
}
template <typename P, typename F>
void Step(const FtrlParamsOf<P>& p, F g, FtrlState<F>& slot) {
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

// Makes the weight twice as large; the rest of the state stays.
template <typename Params, typename Slot>
void DoubleWeight(const Params&, Slot& slot) {
  slot.w *= 2;
}
inline void DoubleWeight(const FtrlParams& p, FtrlSlot& slot) {
  slot.w *= 2;
  if (std::abs(slot.z) > p.l1) slot.z += slot.z - std::copysign(p.l1, slot.z);
}

template <typename F>
struct FtrlPackedState {
  F z, n;
};

// A rule's packed form: the table's memory holds Packed<Params>::State<float>.
template <typename Params>
struct Packed;

// A form that leaves nothing out.
template <typename Params, template <typename> typename RuleState>
struct Whole {
  template <typename F>
  using State = RuleState<F>;
  template <typename F>
  using Slot = RuleState<F>;
  template <typename F>
  static F Weight(const Params&, const State<F>& state) {
    return state.w;
  }
  template <typename F>
  static Slot<F> Unpack(const Params&, const State<F>& state) {
    return state;
  }
  template <typename F>
  static State<F> Pack(const Slot<F>& slot) {
    return slot;
  }
};

template <>
struct Packed<SgdParams> : Whole<SgdParams, SgdState> {};
template <>
struct Packed<AdaGradParams> : Whole<AdaGradParams, AdaGradState> {};
template <>
struct Packed<AdamParams> : Whole<AdamParams, AdamState> {};

template <>
struct Packed<FtrlParams> {
  template <typename F>
  using State = FtrlPackedState<F>;
  template <typename F>
  using Slot = FtrlState<F>;
  template <typename F>
  static F Weight(const FtrlParams& params, const State<F>& state) {
    return FtrlWeight(params, state.z, Sqrt(state.n));
  }
  template <typename F>
  static Slot<F> Unpack(const FtrlParams& params, const State<F>& state) {
    return {Weight(params, state), state.z, state.n};
  }
  template <typename F>
  static State<F> Pack(const Slot<F>& slot) {
    return {slot.z, slot.n};
  }
};

}  // namespace millrace::sparse
