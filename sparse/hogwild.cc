#include "sparse/hogwild.h"

#include <algorithm>

namespace millrace::sparse {
namespace {
constexpr uint32_t kPrefetch = 96;  // entries ahead, as in direct_step.h
}

void HogwildMargins(const io::CsrBatch& batch, SgdSlot* slots, std::span<float> margins) {
  const auto nnz = static_cast<uint32_t>(batch.nnz());
  for (uint32_t i = 0; i < std::min(kPrefetch, nnz); ++i)
    __builtin_prefetch(&slots[batch.cols[i]], 1);
  for (size_t r = 0; r < batch.rows(); ++r) {
    float sum = 0;
    for (uint32_t i = batch.row_begin[r]; i < batch.row_begin[r + 1]; ++i) {
      if (i + kPrefetch < nnz) __builtin_prefetch(&slots[batch.cols[i + kPrefetch]], 1);
      const float w = RacyLoad(slots[batch.cols[i]].w);
      sum += batch.values.empty() ? w : batch.values[i] * w;
    }
    margins[r] = sum;
  }
}

void HogwildUpdate(const io::CsrBatch& batch, std::span<const float> residuals, float rate,
                   SgdSlot* slots) {
  for (size_t r = 0; r < batch.rows(); ++r) {
    const float change = rate * residuals[r];
    for (uint32_t i = batch.row_begin[r]; i < batch.row_begin[r + 1]; ++i) {
      RacySubtract(slots[batch.cols[i]].w,
                   batch.values.empty() ? change : batch.values[i] * change);
    }
  }
}

}  // namespace millrace::sparse
