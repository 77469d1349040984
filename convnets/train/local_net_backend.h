// A net in this process, with its checkpoints in a folder.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "convnets/train/net_backend.h"
#include "convnets/train/net_file.h"
#include "sparse/dense_options.h"
#include "sparse/local_dense_store.h"

namespace millrace::convnets {

struct LocalNetOptions {
  sparse::DenseOptions update;
  std::string checkpoints;  // folder; empty: none are written
  bool resume = false;      // from the newest checkpoint that is whole
  std::function<void(const std::string&)> on_note = nullptr;
};

class LocalNetBackend final : public NetBackend {
 public:
  explicit LocalNetBackend(LocalNetOptions options) : options_(std::move(options)) {}

  Result<trainer::TrainingStart> Start(const NetStart& start) override;
  sparse::DenseStore& store() override { return *store_; }
  Status Checkpoint(const trainer::TrainingState& state) override;

 private:
  Result<trainer::TrainingStart> Restore();
  void Note(const std::string& note) const;

  const LocalNetOptions options_;
  io::StateFields run_;
  FloatArrays arrays_;  // each parameter's weights and optimizer state
  std::unique_ptr<sparse::LocalDenseStore> store_;
};

}  // namespace millrace::convnets
