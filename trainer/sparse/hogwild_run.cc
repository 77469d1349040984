// SPDX-License-Identifier: Apache-2.0
#include "trainer/sparse/hogwild_run.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <numeric>
#include <span>
#include <thread>
#include <vector>

#include "io/batch/csr_batch.h"
#include "profiler/trace.h"
#include "sparse/update_rules.h"
#include "trainer/sparse/batch_learner.h"

namespace millrace::trainer {
namespace {

using io::CsrBatch;

constexpr uint32_t kPrefetch = 96;  // entries ahead, as in direct_step.h

// These two functions are the only deliberate races of Millrace: relaxed loads and stores of single
// floats.
float RacyLoad(float& w) { return std::atomic_ref<float>(w).load(std::memory_order_relaxed); }
void RacySubtract(float& w, float change) {
  std::atomic_ref<float> cell(w);
  cell.store(cell.load(std::memory_order_relaxed) - change, std::memory_order_relaxed);
}

// DirectMargins and DirectSgdStep of direct_step.h with racy loads and stores.
void HogwildMargins(const CsrBatch& batch, sparse::SgdSlot* slots, std::span<float> margins) {
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

void HogwildUpdate(const CsrBatch& batch, std::span<const float> residuals, float rate,
                   sparse::SgdSlot* slots) {
  for (size_t r = 0; r < batch.rows(); ++r) {
    const float change = rate * residuals[r];
    for (uint32_t i = batch.row_begin[r]; i < batch.row_begin[r + 1]; ++i) {
      RacySubtract(slots[batch.cols[i]].w,
                   batch.values.empty() ? change : batch.values[i] * change);
    }
  }
}

class Hogwild {
 public:
  Hogwild(sparse::LocalStore& store, const sparse::Kernels& kernels, SegmentInput& queue,
          uint64_t examples)
      : store_(store), kernels_(kernels), queue_(queue), examples_(examples) {}

  void Work() {
    CsrBatch batch;
    PodVector<float> margins;
    sparse::SgdParams params{};
    while (Take(batch, params)) {
      TRACE_SCOPE("step", profiler::Cat::kStep,
                  {.rows = static_cast<int64_t>(batch.rows()),
                   .nnz = static_cast<int64_t>(batch.cols.size())});
      margins.resize(batch.rows());
      HogwildMargins(batch, store_.hogwild_slots(), margins);
      sparse::SgdSlot* intercept = store_.hogwild_intercept();
      if (intercept) sparse::AddIntercept(RacyLoad(intercept->w), margins);
      const double loss =
          kernels_.loss_and_residuals(margins, batch.labels, batch.weights, margins);
      const double weight = batch.weights.empty()
                                ? static_cast<double>(batch.rows())
                                : std::accumulate(batch.weights.begin(), batch.weights.end(), 0.0);
      const double rate = static_cast<double>(params.rate) / static_cast<double>(batch.rows());
      HogwildUpdate(batch, margins, static_cast<float>(rate), store_.hogwild_slots());
      if (intercept) {
        RacySubtract(intercept->w, static_cast<float>(rate) * sparse::InterceptGradient(margins));
      }
      std::lock_guard lock(mu_);
      stretch_.loss += loss;
      stretch_.weight += weight;
      stretch_.positive += PositiveWeight(batch);
    }
  }

  Result<HogwildStretch> Outcome() const {
    if (!status_.ok()) return status_;
    return stretch_;
  }

 private:
  // Copies the queue's next batch, whose memory the queue takes back.
  bool Take(CsrBatch& batch, sparse::SgdParams& params) {
    std::lock_guard lock(mu_);
    if (!status_.ok() || stretch_.ended || stretch_.examples >= examples_) return false;
    const CsrBatch* next = nullptr;
    const Result<bool> more = queue_.Next(next);
    status_ = more.status();
    stretch_.ended = more.ok() && !*more;
    if (!more.ok() || !*more) return false;
    batch = *next;
    ++stretch_.steps;
    stretch_.examples += batch.rows();
    store_.set_steps(store_.steps() + 1);
    params = sparse::SgdParamsAt(store_.options(), store_.steps());
    return true;
  }

  sparse::LocalStore& store_;
  const sparse::Kernels& kernels_;
  SegmentInput& queue_;
  const uint64_t examples_;
  std::mutex mu_;
  HogwildStretch stretch_;  // guarded by mu_, as are the queue and the store's steps
  Status status_;           // guarded by mu_
};

}  // namespace

Result<HogwildStretch> RunHogwild(sparse::LocalStore& store, const sparse::Kernels& kernels,
                                  SegmentInput& queue, size_t threads, uint64_t examples) {
  Hogwild hogwild(store, kernels, queue, examples);
  {
    std::vector<std::jthread> workers;
    for (size_t i = 0; i < threads; ++i) workers.emplace_back([&hogwild] { hogwild.Work(); });
  }
  return hogwild.Outcome();
}

}  // namespace millrace::trainer
