// SPDX-License-Identifier: Apache-2.0
// One step of logistic regression: the loss of a batch and the update of the model.
#pragma once

#include <memory>
#include <span>

#include "io/base/pod_vector.h"
#include "io/base/status.h"
#include "io/batch/csr_batch.h"
#include "sparse/kernels.h"
#include "sparse/local_store.h"
#include "sparse/weight_store.h"

namespace millrace::trainer {

// The weight of the rows with a positive label.
double PositiveWeight(const io::CsrBatch& batch);

// Not thread-safe.
class BatchLearner {
 public:
  virtual ~BatchLearner() = default;
  // The batch's margins with the current weights. Valid until the next call.
  virtual Result<std::span<const float>> Score(const io::CsrBatch& batch) = 0;
  // Trains on the batch and returns the sum of its losses before that. `next` is the batch after
  // it; null if it is unknown.
  virtual Result<double> Learn(const io::CsrBatch& batch, const io::CsrBatch* next) = 0;
  Result<double> Learn(const io::CsrBatch& batch) { return Learn(batch, nullptr); }
  // Whether the store uses `next`.
  virtual bool wants_next() const { return false; }
  // Whether batches must be compacted.
  virtual bool wants_compact_batches() const = 0;
};

// For any store: pull, three kernels, push. The key of the intercept is added to the batch's keys.
std::unique_ptr<BatchLearner> MakeStoreLearner(sparse::WeightStore& store,
                                               const sparse::Kernels& kernels,
                                               sparse::GradientScale scale);

// For a model in this process. With `may_be_direct` and a store that supports it, steps work
// directly on the slots: batches are not compacted, and only the loss kernel is used. Otherwise
// steps use pull, kernels and push.
std::unique_ptr<BatchLearner> MakeLocalLearner(sparse::LocalStore& store,
                                               const sparse::Kernels& kernels, bool may_be_direct);

}  // namespace millrace::trainer
