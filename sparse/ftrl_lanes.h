// SPDX-License-Identifier: Apache-2.0
// Up to eight FTRL models of one shape that train on the same batches. Their slots are interleaved:
// a feature that was seen has one cache line {z[8], n[8]} (four models: half a line), so that its
// access to memory is paid once, and the rule runs on one vector with a model in each lane. A
// model's additions have the order of the single step (tagged_step.h, row_sums.h): it has the same
// bits as a LocalStore that is trained alone.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "io/batch/csr_batch.h"
#include "sparse/local_store.h"

namespace millrace::sparse {

// Arrays of margins and residuals have the rows of one model after those of the other:
// [models][rows]. Batches are not compacted; every col must be below num_features. Not thread-safe.
class FtrlLanes {
 public:
  static constexpr size_t kMost = 8;

  // Whether the models can share a table: a dense-index table of weights alone (not normalised) for
  // FTRL.
  static bool Suits(const ModelShape& shape, const UpdateOptions& options);
  // One model per element of `options`, from 1 to kMost. All state is zero.
  static Result<std::unique_ptr<FtrlLanes>> Create(const ModelShape& shape,
                                                   std::span<const UpdateOptions> options);
  virtual ~FtrlLanes() = default;

  virtual void Margins(const io::CsrBatch& batch, std::span<float> margins) const = 0;
  // One step: margins out, then residuals in, and the update rule. Nothing else may be asked of the
  // models between the two.
  virtual void Begin(const io::CsrBatch& batch, std::span<float> margins) = 0;
  virtual void Finish(const io::CsrBatch& batch, std::span<const float> residuals) = 0;

  // The model does not change in later steps.
  virtual void Freeze(size_t model) = 0;
  // The state of a LocalStore of the model's options; the intercept is io::kInterceptKey.
  virtual void Load(size_t model, uint64_t key, float z, float n) = 0;
  // Loads the model into a new store of the same shape and the model's options.
  virtual Status CopyTo(size_t model, LocalStore& store) const = 0;
};

}  // namespace millrace::sparse
