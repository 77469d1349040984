// SGD steps by several threads on one array of weights, without locks (Niu et al. 2011). Threads
// read weights while others change them, and an update is occasionally lost: the result depends on
// timing. On skewed data the threads also contend for the cache lines of popular features.
#pragma once

#include <atomic>
#include <span>

#include "io/batch/csr_batch.h"
#include "sparse/update_rules.h"

namespace millrace::sparse {

// These two functions are the only deliberate races of Millrace: relaxed loads and stores of single
// floats.
inline float RacyLoad(float& w) {
  return std::atomic_ref<float>(w).load(std::memory_order_relaxed);
}
inline void RacySubtract(float& w, float change) {
  std::atomic_ref<float> cell(w);
  cell.store(cell.load(std::memory_order_relaxed) - change, std::memory_order_relaxed);
}

// DirectMargins and DirectSgdStep of direct_step.h with racy loads and stores.
void HogwildMargins(const io::CsrBatch& batch, SgdSlot* slots, std::span<float> margins);
void HogwildUpdate(const io::CsrBatch& batch, std::span<const float> residuals, float rate,
                   SgdSlot* slots);

}  // namespace millrace::sparse
