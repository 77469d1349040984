// SPDX-License-Identifier: Apache-2.0
// A trained model for scoring, and the facts about it that its file holds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/base/huge_array.h"
#include "io/base/pod_vector.h"
#include "io/base/status.h"
#include "io/batch/csr_batch.h"
#include "io/rows/row_format.h"
#include "io/state/state_fields.h"
#include "sparse/factor_blocks.h"
#include "sparse/factors.h"
#include "sparse/hashed_key_table.h"
#include "sparse/update_rules.h"

namespace millrace::trainer {

struct ModelInfo {
  uint64_t num_features = 0;  // without the intercept; 0: a hashed-key table, any 64-bit key
  std::string rule;           // "ftrl"
  sparse::FactorShape factors = {};
  uint64_t steps = 0;
  uint64_t examples = 0;
  uint64_t weights = 0;  // that are not zero; known after the file was read
  // The intercept is that of rows from which these are subtracted, as in training: with a column of
  // large numbers, the intercept of rows as they are has few correct digits as a float.
  std::vector<io::ValueCenter> centers = {};
  // How the training data was written; none if it is not known.
  std::optional<io::RowFormat> input = {};
};

// "num_features = 100" or "any 64-bit key", for messages.
std::string ShapeText(uint64_t num_features);

// All but `weights`, which are known at the end of a file only.
void AddModelInfo(const ModelInfo& info, io::StateFields& fields);
Result<ModelInfo> ModelInfoFrom(const io::StateFields& fields);

// Const calls are thread-safe.
class Model {
 public:
  // Without weights yet; an error if there is not enough memory.
  static Result<Model> Create(const ModelInfo& info);
  // `key` is below num_features, or io::kInterceptKey. Call it once per key. `factors`: as many as
  // the model has a feature; none are zeros.
  void Set(uint64_t key, float weight, std::span<const float> factors = {});

  const ModelInfo& info() const { return info_; }
  // 0 for a key that the model does not have.
  float Weight(uint64_t key) const;
  size_t factor_width() const { return info_.factors.width(); }
  // The factors of a feature; empty for a key that has none.
  std::span<const float> Factors(uint64_t key) const;

  // Replaces `margins` (batch.rows() numbers) by X w + intercept. The batch was read with this
  // num_features and these centers; a hashed-key table needs a compacted one. `scratch` is room for
  // the batch's weights.
  Status Margins(const io::CsrBatch& batch, PodVector<float>& scratch,
                 std::span<float> margins) const;

  // Calls visit(key, weight) for each weight that is not zero, in the order of keys: the intercept
  // comes last.
  using Visit = std::function<void(uint64_t key, float weight)>;
  void ForEach(const Visit& visit) const;

 private:
  explicit Model(const ModelInfo& info)
      : info_(info),
        dense_(info.num_features),
        dense_factors_(has_hashed_factors() ? 0 : info.num_features * info.factors.width()),
        hashed_factors_(std::max<size_t>(info.factors.width(), 1)) {}

  bool is_hashed() const { return info_.num_features == 0; }
  // Blocks of features that the model has: an ffm has large ones.
  bool has_hashed_factors() const {
    return is_hashed() || info_.factors.kind == sparse::ModelKind::kFfm;
  }
  Status CheckKeys(std::span<const uint64_t> keys) const;
  void PrefetchFactors(uint64_t key) const;
  void ReadFactors(uint64_t key, float* out) const;
  void AddFactors(const io::CsrBatch& batch, std::span<float> margins) const;

  ModelInfo info_;
  // One of the two is empty.
  HugeArray<sparse::SgdSlot> dense_;  // by key
  sparse::HashedKeyTable<sparse::SgdSlot> hashed_;
  // One of these two is empty as well: [features][factor_width].
  HugeArray<float> dense_factors_;
  sparse::HashedKeyBlocks hashed_factors_;
  float intercept_ = 0;
};

}  // namespace millrace::trainer
