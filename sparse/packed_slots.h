// What an indexed model keeps of a feature: the rule's state without what follows from the rest.
// Bytes count: a model of 33 million features takes 135 MB for each float, and all of them have to
// be fetched, zeroed and missed in the caches.
//
//   rule      packed     left out
//   SGD       w
//   AdaGrad   w, n
//   FTRL      z, n       w, which z and n determine
//   Adam      w, m, v
//
// The last float of all but SGD's is a sum or a mean of squares: its sign bit is never set, and
// lends itself to tagged_step.h.
#pragma once

#include <array>
#include <cstddef>

#include "sparse/float4.h"
#include "sparse/update_rules.h"

namespace millrace::sparse {

template <typename F>
struct FtrlPackedState {
  F z, n;
};

// A rule's packed form: Packed<Params>::State<float> is what memory holds.
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
