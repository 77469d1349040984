// SPDX-License-Identifier: Apache-2.0
// The interface of a training loop to the model: weights out, gradients in.
#pragma once

#include <cstdint>
#include <span>

#include "io/base/status.h"
#include "sparse/factors.h"

namespace millrace::sparse {

// What a push consists of. Stores that combine the pushes of several workers need it.
struct PushInfo {
  uint64_t batch = 0;  // the number that the batch was pulled under; 0: it was not
  uint32_t rows = 0;
  double weight = 0;  // summed over the rows
  double loss = 0;    // summed over the rows, before the step
};

// Keys are sorted and unique in every call. Not thread-safe.
//
// A store with scales (UpdateOptions::normalize) trains on values divided by a scale per feature
// (value_scale.h). PullBatch then fills two arrays, one behind the other: the weights and the
// scales, 0 for a feature without one. Push takes two: the gradient and the largest |value| of each
// key in the batch, which makes the scale grow. Weights and gradients are those of values as they
// are.
//
// A store of a factorization machine has factor_width() factors a feature. PullBatch and Push then
// take one more array behind these: [features][factor_width], without the intercept.
//
// A training loop numbers its batches 1, 2, 3, ... For each one it may prefetch the next one's
// keys; it pulls the batch and pushes its gradient:
//
//   store.Prefetch(n + 1, next_keys);
//   store.PullBatch(n, keys, weights);
//   store.Push(keys, gradient, {.batch = n, ...});
class WeightStore {
 public:
  virtual ~WeightStore() = default;
  // Whether the model has an intercept: a batch's keys then end with io::kInterceptKey.
  virtual bool has_intercept() const = 0;
  virtual bool has_scales() const { return false; }
  // The kind of the model, and the factors that a feature has.
  virtual FactorShape factors() const { return {}; }
  size_t factor_width() const { return factors().width(); }
  // The weights of `keys` as they are now; a key that was never pushed has weight 0.
  virtual Status Pull(std::span<const uint64_t> keys, std::span<float> weights) = 0;
  // The factors of features as they are now: [features][factor_width], 0 for a feature that was
  // never trained. PullBatch gives such features their initial factors.
  virtual Status PullFactors(std::span<const uint64_t> /*features*/, std::span<float> /*factors*/) {
    return {};
  }
  // One step: applies the update rule to each key with its gradient.
  virtual Status Push(std::span<const uint64_t> keys, std::span<const float> gradient,
                      const PushInfo& info) = 0;

  // Batch `batch` will be pulled next, after the present one, with these keys: a remote store
  // requests their weights in time. Copies what it needs of `keys`.
  virtual void Prefetch(uint64_t /*batch*/, std::span<const uint64_t> /*keys*/) {}
  virtual bool wants_prefetch() const { return false; }
  // The weights of a training batch. If it was prefetched, the keys are the same as then.
  virtual Status PullBatch(uint64_t /*batch*/, std::span<const uint64_t> keys,
                           std::span<float> weights) {
    return Pull(keys, weights);
  }
};

}  // namespace millrace::sparse
