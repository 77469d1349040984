// SGD steps by several threads on one array of weights, without locks (Niu et al. 2011). Threads
// read weights that others are just changing, and now and then one's update is lost to another's:
// the result depends on timing. On skewed data the threads also fight for the cache lines of
// popular features; docs/performance.md has figures.
#pragma once

#include <atomic>
#include <span>

#include "io/batch/csr_batch.h"
#include "sparse/update_rules.h"

namespace millrace::sparse {

// The deliberate races of Millrace are these two functions, and nothing else: relaxed loads and
// stores of single floats.
inline float RacyLoad(float& w) {
  return std::atomic_ref<float>(w).load(std::memory_order_relaxed);
}
inline void RacySubtract(float& w, float change) {
  std::atomic_ref<float> cell(w);
  cell.store(cell.load(std::memory_order_relaxed) - change, std::memory_order_relaxed);
}

// As DirectMargins and DirectSgdStep of direct_step.h, for batches that are not compacted.
void HogwildMargins(const io::CsrBatch& batch, SgdSlot* slots, std::span<float> margins);
void HogwildUpdate(const io::CsrBatch& batch, std::span<const float> residuals, float rate,
                   SgdSlot* slots);

}  // namespace millrace::sparse
