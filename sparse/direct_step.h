// A step straight on the slots of an indexed model, for batches whose cols are feature indices.
// Nothing is sorted or compacted; each pass goes over the batch's entries, and all but the first
// find their cache lines at hand:
//
//   margins   m[r] = sum over row r of value * slot[col].w         (slots prefetched some rows
//   ahead) sums      slot[col].g += value * e[r]; a slot whose g was 0 goes on a list update
//   Step(params, slot.g, slot) for each slot on the list, and g = 0 again
//
// It equals pull, gradient and push of the compacted batch within rounding. (A slot is listed twice
// if its sum comes by 0 on the way; the second time there is nothing left to do. A gradient of
// exactly 0 takes no step.)
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "io/base/pod_vector.h"
#include "io/queue/csr_batch.h"
#include "sparse/update_rules.h"

namespace millrace::sparse {

// A rule's slot with room for the gradient of the present step; g is 0 between steps.
template <typename Slot>
struct SummingSlot : Slot {
  float g;
};

namespace internal {

// Entries between a slot's prefetch and its use: enough for a miss to memory, little enough to stay
// in the cache.
constexpr uint32_t kDirectPrefetch = 96;

template <bool kOnes, typename Slot>
void DirectMargins(const io::CsrBatch& batch, const Slot* slots, float* margins) {
  const uint32_t* cols = batch.cols.data();
  const float* values = batch.values.data();
  const auto nnz = static_cast<uint32_t>(batch.nnz());
  const auto term = [&](uint32_t i) {
    return kOnes ? slots[cols[i]].w : values[i] * slots[cols[i]].w;
  };
  for (uint32_t i = 0; i < std::min(kDirectPrefetch, nnz); ++i)
    __builtin_prefetch(&slots[cols[i]], 1);
  for (size_t r = 0; r < batch.rows(); ++r) {
    uint32_t i = batch.row_begin[r];
    const uint32_t end = batch.row_begin[r + 1];
    const uint32_t ahead_end = std::min(end + kDirectPrefetch, nnz);
    for (uint32_t ahead = std::min(i + kDirectPrefetch, nnz); ahead < ahead_end; ++ahead) {
      __builtin_prefetch(&slots[cols[ahead]], 1);
    }
    float a = 0, b = 0, c = 0, d = 0;
    for (; i + 4 <= end; i += 4) {
      a += term(i);
      b += term(i + 1);
      c += term(i + 2);
      d += term(i + 3);
    }
    for (; i < end; ++i) a += term(i);
    margins[r] = (a + b) + (c + d);
  }
}

// Returns the number of slots listed.
template <bool kOnes, typename Slot>
size_t DirectSums(const io::CsrBatch& batch, const float* slopes, Slot* slots, uint32_t* touched) {
  const uint32_t* cols = batch.cols.data();
  const float* values = batch.values.data();
  size_t count = 0;
  for (size_t r = 0; r < batch.rows(); ++r) {
    const float slope = slopes[r];
    for (uint32_t i = batch.row_begin[r]; i < batch.row_begin[r + 1]; ++i) {
      Slot& slot = slots[cols[i]];
      const float before = slot.g;
      slot.g = before + (kOnes ? slope : values[i] * slope);
      touched[count] = cols[i];
      count += before == 0;
    }
  }
  return count;
}

template <bool kOnes>
void DirectSgdUpdate(const io::CsrBatch& batch, const float* slopes, float rate, SgdSlot* slots) {
  const uint32_t* cols = batch.cols.data();
  const float* values = batch.values.data();
  for (size_t r = 0; r < batch.rows(); ++r) {
    const float change = rate * slopes[r];
    for (uint32_t i = batch.row_begin[r]; i < batch.row_begin[r + 1]; ++i) {
      slots[cols[i]].w -= kOnes ? change : values[i] * change;
    }
  }
}

}  // namespace internal

template <typename Slot>
void DirectMargins(const io::CsrBatch& batch, const Slot* slots, std::span<float> margins) {
  if (batch.values.empty()) return internal::DirectMargins<true>(batch, slots, margins.data());
  internal::DirectMargins<false>(batch, slots, margins.data());
}

// `touched` is scratch.
template <typename Slot, typename Params>
void DirectStep(const Params& params, const io::CsrBatch& batch, std::span<const float> slopes,
                SummingSlot<Slot>* slots, io::PodVector<uint32_t>& touched) {
  touched.resize(batch.nnz() + 1);
  const size_t count =
      batch.values.empty()
          ? internal::DirectSums<true>(batch, slopes.data(), slots, touched.data())
          : internal::DirectSums<false>(batch, slopes.data(), slots, touched.data());
  for (size_t i = 0; i < count; ++i) {
    SummingSlot<Slot>& slot = slots[touched[i]];
    if (slot.g == 0) continue;
    Step(params, slot.g, static_cast<Slot&>(slot));
    slot.g = 0;
  }
}

// SGD is linear in the gradient: entry by entry, without sums. For a rule without L2.
inline void DirectStep(const SgdParams& params, const io::CsrBatch& batch,
                       std::span<const float> slopes, SgdSlot* slots, io::PodVector<uint32_t>&) {
  if (batch.values.empty())
    return internal::DirectSgdUpdate<true>(batch, slopes.data(), params.rate, slots);
  internal::DirectSgdUpdate<false>(batch, slopes.data(), params.rate, slots);
}

}  // namespace millrace::sparse
