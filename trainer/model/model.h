// A trained model for scoring.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "io/base/huge_array.h"
#include "io/base/pod_vector.h"
#include "io/base/status.h"
#include "io/batch/csr_batch.h"
#include "sparse/hashed_key_table.h"
#include "sparse/update_rules.h"
#include "trainer/model/model_info.h"

namespace millrace::trainer {

// Const calls are thread-safe.
class Model {
 public:
  // Without weights yet; an error where memory does not suffice.
  static Result<Model> Create(const ModelInfo& info);
  // `key` is below num_features. Once a key.
  void Set(uint64_t key, float weight);

  const ModelInfo& info() const { return info_; }
  // 0 for a key that the model does not have.
  float Weight(uint64_t key) const;

  // Replaces `margins` (batch.rows() numbers) by X w. The batch was read with this num_features; a
  // hashed-key table needs a compacted one. `scratch` is room for the batch's weights.
  Status Margins(const io::CsrBatch& batch, PodVector<float>& scratch,
                 std::span<float> margins) const;

  // Calls visit(key, weight) for each weight that is not zero, in the order of keys.
  using Visit = std::function<void(uint64_t key, float weight)>;
  void ForEach(const Visit& visit) const;

 private:
  explicit Model(const ModelInfo& info) : info_(info), dense_(info.num_features) {}

  bool is_hashed() const { return info_.num_features == 0; }
  Status CheckKeys(std::span<const uint64_t> keys) const;

  ModelInfo info_;
  // One of the two is empty.
  HugeArray<sparse::SgdSlot> dense_;  // by key
  sparse::HashedKeyTable<sparse::SgdSlot> hashed_;
};

}  // namespace millrace::trainer
