// SPDX-License-Identifier: Apache-2.0
// A step of an adaptive rule for batches that are not compacted, directly on the packed slots of a
// dense-index table. It does not sort keys: it numbers the batch's features in the order of their
// first entry, and during the step a slot's last float (otherwise never negative) is a tag: the
// sign bit and that number.
//
//   tag       number of each entry; copies a feature's state at its first entry        [entries]
//   weights   of the features                                                          [features]
//   margins   m[r] = sum over row r of value * weight                                   [entries]
//   gradient  g = X^T e                                                                 [entries]
//   update    Step for four features at a time; writes states back over the tags       [features]
//
// Only the first pass accesses memory at random; the others use short arrays in the cache. The
// result equals pull, gradient and push of the compacted batch within rounding. A feature whose
// gradient is exactly 0 is not updated.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "io/base/pod_vector.h"
#include "io/batch/csr_batch.h"
#include "sparse/direct_step.h"
#include "sparse/update_rules.h"

namespace millrace::sparse {

//
// `Slot` starts with the packed state of the rule.
template <typename Params, typename Slot = typename Packed<Params>::template State<float>>
class TaggedStep {
 public:
  using Form = Packed<Params>;

  // Computes the batch's margins and tags the slots: nothing else may read them until Finish, which
  // must follow with the same batch. A batch has fewer than 2^31 entries. `visit(number, slot)` is
  // called for each entry. Number is that of its feature if this is the first entry with it; if
  // not, it is that of the next new feature, for which visit will be called again, if there is one.
  template <typename Visit>
  void Begin(const Params& params, const io::CsrBatch& batch, Slot* slots, std::span<float> margins,
             Visit visit) {
    Reserve(batch.nnz());
    Tag(batch, slots, visit);
    for (size_t i = 0; i < count_; i += kLanes) {
      Store4(&weights_[i], Form::Weight(params, State4(i)));
    }
    const float* weights = weights_.data();
    const uint32_t* numbers = numbers_.data();
    internal::SumRows(
        batch, margins.data(), [=](uint32_t i) { return weights[numbers[i]]; }, [](size_t) {});
  }

  void Finish(const Params& params, const io::CsrBatch& batch, std::span<const float> residuals,
              Slot* slots) {
    float* gradient = gradient_.data();
    const uint32_t* numbers = numbers_.data();
    std::fill_n(gradient, count_ + kLanes, 0.0f);
    internal::AddRows(batch, residuals.data(), 1.0f,
                      [=](uint32_t i, float change) { gradient[numbers[i]] += change; });
    for (size_t i = 0; i < count_; i += kLanes) {
      const auto before = State4(i);
      auto slot = Form::Unpack(params, before);
      const Float4 g = Load4(&gradient[i]);
      Step(params, g, slot);
      PutBack(Form::Pack(slot), before, g == 0, i, slots);
    }
  }

  // Of the step: the number of each entry's feature, and the features by number.
  const uint32_t* numbers() const { return numbers_.data(); }
  std::span<const uint32_t> features() const { return {touched_.data(), count_}; }

 private:
  static constexpr size_t kFloats =
      sizeof(typename Form::template State<float>) / sizeof(float);  // of the state
  static constexpr size_t kLanes = 4;
  static constexpr uint32_t kTag = 0x80000000u;
  using State = typename Form::template State<Float4>;

  void Reserve(size_t nnz) {
    numbers_.resize(nnz);
    for (auto* floats : {&weights_, &gradient_, &state_[0], &state_[1], &state_[kFloats - 1]}) {
      floats->resize(nnz + kLanes);
    }
    touched_.resize(nnz + kLanes);
  }

  // Always writes to the position after the last feature; the next new feature overwrites it. This
  // avoids an unpredictable branch.
  template <typename Visit>
  void Tag(const io::CsrBatch& batch, Slot* slots, Visit visit) {
    const uint32_t* cols = batch.cols.data();
    const size_t nnz = batch.nnz();
    uint32_t* numbers = numbers_.data();
    uint32_t* touched = touched_.data();
    std::array<float*, kFloats> state;
    for (size_t k = 0; k < kFloats; ++k) state[k] = state_[k].data();
    internal::SlotPrefetcher<Slot> fetcher(batch, slots);
    fetcher.Fetch(internal::kDirectPrefetch);
    uint32_t count = 0;
    for (size_t i = 0; i < nnz; ++i) {
      fetcher.Fetch(1);
      auto* floats = reinterpret_cast<float*>(&slots[cols[i]]);
      uint32_t last;
      std::memcpy(&last, &floats[kFloats - 1], sizeof last);
      const bool seen = (last & kTag) != 0;
      const uint32_t number = seen ? last & ~kTag : count;
      touched[count] = cols[i];
      visit(count, slots[cols[i]]);
      for (size_t k = 0; k + 1 < kFloats; ++k) state[k][count] = floats[k];
      std::memcpy(&state[kFloats - 1][count], &last, sizeof last);
      const uint32_t tag = number | kTag;
      std::memcpy(&floats[kFloats - 1], &tag, sizeof tag);
      numbers[i] = number;
      count += !seen;
    }
    count_ = count;
  }

  State State4(size_t i) const {
    if constexpr (kFloats == 2) {
      return {Load4(&state_[0][i]), Load4(&state_[1][i])};
    } else {
      return {Load4(&state_[0][i]), Load4(&state_[1][i]), Load4(&state_[2][i])};
    }
  }

  void PutBack(const State& after, const State& before, Mask4 unchanged, size_t i, Slot* slots) {
    std::array<Float4, kFloats> now, old;
    std::memcpy(&now, &after, sizeof now);
    std::memcpy(&old, &before, sizeof old);
    for (size_t k = 0; k < kFloats; ++k) now[k] = Select(unchanged, old[k], now[k]);
    now[kFloats - 1] = Abs(now[kFloats - 1]);  // a NaN may be negative
    const size_t lanes = std::min(kLanes, count_ - i);
    for (size_t lane = 0; lane < lanes; ++lane) {
      auto* floats = reinterpret_cast<float*>(&slots[touched_[i + lane]]);
      for (size_t k = 0; k < kFloats; ++k) floats[k] = now[k][lane];
    }
  }

  size_t count_ = 0;             // features of the batch
  PodVector<uint32_t> numbers_;  // [entries]
  PodVector<uint32_t> touched_;  // [features] and kLanes spare ones, like those below
  PodVector<float> state_[kFloats];
  PodVector<float> weights_, gradient_;
};

}  // namespace millrace::sparse
