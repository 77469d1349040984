// A model in this process, with its checkpoints in the run folder.
#pragma once

#include <memory>
#include <string>

#include "sparse/kernels.h"
#include "sparse/local_store.h"
#include "trainer/sparse/sparse_backend.h"

namespace millrace::trainer {

class LocalHome final : public ModelHome {
 public:
  // `checkpoints` is a folder; empty: none can be written.
  LocalHome(std::unique_ptr<sparse::LocalStore> store, const sparse::Kernels& kernels,
            bool may_be_direct, std::string checkpoints);

  BatchLearner& learner() override { return *learner_; }
  Status Checkpoint(const TrainingState& state) override;
  ModelSource Source(uint64_t examples) override { return SourceOf(*store_, examples); }

  sparse::LocalStore& store() { return *store_; }

 private:
  std::unique_ptr<sparse::LocalStore> store_;
  std::unique_ptr<BatchLearner> learner_;
  std::string checkpoints_;
};

}  // namespace millrace::trainer
