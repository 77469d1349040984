// SPDX-License-Identifier: Apache-2.0
// The model in this process: a table of slots and an update rule.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "io/batch/csr_batch.h"
#include "sparse/factors.h"
#include "sparse/update_options.h"
#include "sparse/weight_store.h"

namespace millrace::sparse {

struct ModelShape {
  uint64_t num_features = 0;  // 0: a hashed-key table, any 64-bit key but io::kInterceptKey
  bool intercept = true;
  FactorShape factors = {};  // kLr: weights alone
  // The key in the whole model of this table's key, from which initial factors derive. Empty: it is
  // the same. A shard of a dense-index table has its own keys.
  std::function<uint64_t(uint64_t key)> whole_key = {};
};

// The intercept has a slot of its own under io::kInterceptKey. The rule updates it like a feature,
// but without L1 and L2.
class LocalStore : public WeightStore {
 public:
  static Result<std::unique_ptr<LocalStore>> Create(const ModelShape& shape,
                                                    const UpdateOptions& options);

  // Steps taken so far: with the options, it decides the next step's rate.
  uint64_t steps() const { return steps_; }
  void set_steps(uint64_t steps) { steps_ = steps; }
  const ModelShape& shape() const { return shape_; }
  const UpdateOptions& options() const { return options_; }
  bool has_intercept() const final { return shape_.intercept; }

  bool has_scales() const override { return options_.normalize; }
  FactorShape factors() const override { return shape_.factors; }
  // What PullBatch gives for the next step. But the store stays as it is: a feature gets its
  // factors with its first push. For batches that may never be pushed.
  virtual Status PeekBatch(std::span<const uint64_t> keys, std::span<float> weights) = 0;
  // Floats of state a feature; the first one is the weight (of values as they are), the next ones
  // are the factors, and then follows the state of the weight, and that of the factors, plane by
  // plane. With FactorShape::admit above 1 the next one is the number of earlier batches of the
  // feature, up to admit - 1. With UpdateOptions::normalize the last one is the scale of its
  // values, and the state is that of the normalised ones.
  virtual size_t slot_floats() const = 0;
  // Calls visit(key, state) for each feature whose state is not all zero, in the order of keys. The
  // span is valid during the call.
  using Visit = std::function<void(uint64_t key, std::span<const float> state)>;
  virtual void ForEach(const Visit& visit) const = 0;
  // Sets a feature's whole state.
  virtual Status Load(uint64_t key, std::span<const float> state) = 0;
  // Floats of state of the rule itself.
  size_t rule_floats() const { return slot_floats() - (options_.normalize ? 1 : 0); }
  // Sets a feature's whole state, which was trained with other numbers of the same rule: the weight
  // stays. State without a scale, where this store has scales, is that of values of 1.
  // `add` is added to the weight.
  Status LoadTrainedWith(const UpdateOptions& earlier, uint64_t key, std::span<const float> state,
                         float add = 0);
  // Sets a feature's weight and its factors (or none: those of a feature that was never seen), as
  // the start of training: the rest of its state is that of a feature whose gradients are
  // forgotten.
  Status LoadWeight(uint64_t key, float weight, std::span<const float> factors = {});

  // Whether the store can work on batches that are not compacted: dense-index tables of at most
  // 2^32 features (SGD: without L2). The calls below are for such stores and batches, and every col
  // must be below num_features.
  virtual bool direct() const = 0;
  virtual void DirectMargins(const io::CsrBatch& batch, std::span<float> margins) const = 0;
  // One step: margins out, then residuals in and the update rule with the gradient X^T residuals.
  // Nothing else may be asked of the store between the two.
  virtual void DirectBegin(const io::CsrBatch& batch, std::span<float> margins) = 0;
  virtual void DirectFinish(const io::CsrBatch& batch, std::span<const float> residuals) = 0;
  // The factors' part of the same step; nothing for a linear model. To be called between the two:
  // adds to the margins, then takes the residuals and updates the factors. `next` is the batch of
  // the next step, null if it is unknown: prefetching it has no influence on the model.
  virtual void DirectFactorsBegin(const io::CsrBatch& batch, const io::CsrBatch* next,
                                  std::span<float> margins) = 0;
  virtual void DirectFactorsFinish(const io::CsrBatch& batch, const io::CsrBatch* next,
                                   std::span<const float> residuals) = 0;
  // The slots of a dense-index SGD model without L2, for Hogwild threads; null for any other model.
  virtual SgdSlot* hogwild_slots() = 0;
  // That of the intercept; null without one, and where hogwild_slots() is null.
  virtual SgdSlot* hogwild_intercept() = 0;

 protected:
  LocalStore(const ModelShape& shape, const UpdateOptions& options)
      : shape_(shape), options_(options) {}

  ModelShape shape_;
  UpdateOptions options_;
  uint64_t steps_ = 0;
  std::vector<float> state_ = {};  // scratch
};

}  // namespace millrace::sparse
