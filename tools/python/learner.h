// SPDX-License-Identifier: Apache-2.0
// A model in memory that learns from rows in memory: what an estimator of the Python package holds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "sparse/local_store.h"
#include "tools/python/csr_rows.h"
#include "trainer/model/model_file.h"
#include "trainer/sparse/batch_learner.h"

namespace millrace::python {

// One call of Train.
struct TrainPasses {
  uint64_t epochs = 1;
  size_t batch_size = 100;
  bool shuffle = false;  // else the rows as they stand
  uint64_t seed = 1;     // of the order
};

// Called after every step with the number of rows and the mean loss so far. An error ends the work:
// the model has the steps before it.
using OnStep = std::function<Status(uint64_t rows, double mean_loss)>;

// Steps are those of millrace-lr: the same rows in the same order and the same options give the
// same bits. Not thread-safe.
class Learner {
  struct Private {};  // only Create makes learners

 public:
  static Result<std::unique_ptr<Learner>> Create(const sparse::ModelShape& shape,
                                                 const sparse::UpdateOptions& update);
  Learner(Private, std::unique_ptr<sparse::LocalStore> store);

  // Trains on all rows, and returns their mean loss before their steps.
  Result<double> Train(const CsrRows& rows, const TrainPasses& passes, const OnStep& on_step);
  // Fills `margins` (one a row).
  Status Margins(const CsrRows& rows, std::span<double> margins, const OnStep& on_step);

  // The weights of a model file or a run folder, with state of features that were never updated.
  // The model is new.
  Status LoadWeights(const std::string& path);
  // `plan`: what made the columns from named fields, kept in the file; null: unknown.
  Status Save(const std::string& path, trainer::ModelFormat format,
              const std::shared_ptr<const io::EncoderPlan>& plan) const;

  sparse::LocalStore& store() { return *store_; }
  const sparse::LocalStore& store() const { return *store_; }
  uint64_t examples() const { return examples_; }
  void set_examples(uint64_t examples) { examples_ = examples; }

 private:
  BatchForm Form() const;
  Status CheckColumns(const CsrRows& rows) const;

  std::unique_ptr<sparse::LocalStore> store_;
  std::unique_ptr<trainer::BatchLearner> learner_;
  uint64_t examples_ = 0;  // that it was trained on
};

// The order of a pass: 0 to below `rows`, shuffled by the seed and the epoch.
std::vector<uint32_t> ShuffledOrder(size_t rows, uint64_t seed, uint64_t epoch);

}  // namespace millrace::python
