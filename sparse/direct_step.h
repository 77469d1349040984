// SPDX-License-Identifier: Apache-2.0
// Margins of any rule, and the SGD update, for batches that are not compacted: they work directly
// on the slots of a dense-index table. tagged_step.h has the updates of the other rules.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

#include "io/batch/csr_batch.h"
#include "sparse/row_sums.h"
#include "sparse/update_rules.h"

namespace millrace::sparse {
namespace internal {

// Entries between a slot's prefetch and its use: enough to hide a memory access, few enough to stay
// in the cache.
constexpr uint32_t kDirectPrefetch = 96;

// Prefetches the slots of a batch's entries, some at a time, in the order of entries.
template <typename Slot>
class SlotPrefetcher {
 public:
  SlotPrefetcher(const io::CsrBatch& batch, const Slot* slots)
      : next_(batch.cols.data()), end_(next_ + batch.nnz()), slots_(slots) {}
  void Fetch(size_t count) {
    const size_t left = static_cast<size_t>(end_ - next_);
    for (const uint32_t* stop = next_ + std::min(count, left); next_ != stop; ++next_) {
      const Slot* slot = &slots_[*next_];
      __builtin_prefetch(slot);
      // A slot of three floats may lie in two cache lines.
      if constexpr (!std::has_single_bit(sizeof(Slot)))
        __builtin_prefetch(reinterpret_cast<const char*>(slot + 1) - 1);
    }
  }

 private:
  const uint32_t* next_;
  const uint32_t* end_;
  const Slot* slots_;
};

// add(i, value * scale * residuals[r]) for every entry i.
template <typename Add>
void AddRows(const io::CsrBatch& batch, const float* residuals, float scale, Add add) {
  const uint32_t* row_begin = batch.row_begin.data();
  const size_t rows = batch.rows();
  const auto add_rows = [&](auto term) {
    for (size_t r = 0; r < rows; ++r) {
      const float residual = scale * residuals[r];
      const uint32_t end = row_begin[r + 1];
      for (uint32_t i = row_begin[r]; i < end; ++i) add(i, term(i, residual));
    }
  };
  if (batch.values.empty()) return add_rows([](uint32_t, float residual) { return residual; });
  const float* values = batch.values.data();
  add_rows([=](uint32_t i, float residual) { return values[i] * residual; });
}

// The weight of entry i, from slots that contain the weight.
template <typename Slot>
struct StoredWeight {
  const uint32_t* cols;
  const Slot* slots;
  float operator()(uint32_t i) const { return slots[cols[i]].w; }
};

// The weight of entry i, from slots that contain z and n.
template <typename Slot>
struct FtrlPackedWeight {
  const uint32_t* cols;
  const Slot* slots;
  FtrlParams params;
  float operator()(uint32_t i) const { return Packed<FtrlParams>::Weight(params, slots[cols[i]]); }
  Float4 Four(uint32_t i) const {
    const auto &a = slots[cols[i]], &b = slots[cols[i + 1]], &c = slots[cols[i + 2]],
               &d = slots[cols[i + 3]];
    const FtrlPackedState<Float4> four{{a.z, b.z, c.z, d.z}, {a.n, b.n, c.n, d.n}};
    return Packed<FtrlParams>::Weight(params, four);
  }
};

template <typename Slot, typename Weight>
void FetchAndSumRows(const io::CsrBatch& batch, const Slot* slots, float* margins, Weight weight) {
  const uint32_t* row_begin = batch.row_begin.data();
  SlotPrefetcher<Slot> fetcher(batch, slots);
  fetcher.Fetch(kDirectPrefetch);
  SumRows(batch, margins, weight,
          [&](size_t r) { fetcher.Fetch(row_begin[r + 1] - row_begin[r]); });
}

}  // namespace internal

// m = X w.
template <typename Slot>
void DirectMargins(const io::CsrBatch& batch, const Slot* slots, std::span<float> margins) {
  internal::FetchAndSumRows(batch, slots, margins.data(),
                            internal::StoredWeight<Slot>{batch.cols.data(), slots});
}
template <typename Params, typename Slot>
void DirectMargins(const Params&, const io::CsrBatch& batch, const Slot* slots,
                   std::span<float> margins) {
  DirectMargins(batch, slots, margins);
}
template <typename Slot>
void DirectMargins(const FtrlParams& params, const io::CsrBatch& batch, const Slot* slots,
                   std::span<float> margins) {
  internal::FetchAndSumRows(batch, slots, margins.data(),
                            internal::FtrlPackedWeight<Slot>{batch.cols.data(), slots, params});
}

// SGD is linear in the gradient, so that it updates entry by entry without sums. Requires l2 = 0.
inline void DirectSgdStep(const SgdParams& params, const io::CsrBatch& batch,
                          std::span<const float> residuals, SgdSlot* slots) {
  const uint32_t* cols = batch.cols.data();
  internal::AddRows(batch, residuals.data(), params.rate,
                    [=](uint32_t i, float change) { slots[cols[i]].w -= change; });
}

}  // namespace millrace::sparse
