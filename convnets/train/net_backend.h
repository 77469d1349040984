// SPDX-License-Identifier: Apache-2.0
// Where the parameters of a net live, and how a step reaches them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "convnets/train/net_file.h"
#include "io/base/status.h"
#include "io/state/state_fields.h"
#include "sparse/dense_options.h"
#include "sparse/dense_store.h"
#include "sparse/local_dense_store.h"
#include "trainer/loop/backend.h"

namespace millrace::convnets {

struct NetStart {
  std::span<const sparse::DenseParam> params;  // the net's memory, with its initial weights
  io::StateFields run;                         // must be the same when a run is resumed
  sparse::LocalDenseStore::ParallelFor parallel_for = nullptr;
};

// Not thread-safe.
class NetBackend : public trainer::Backend {
 public:
  // Call it once, first. On return the parameters' memory holds the initial weights.
  virtual Result<trainer::TrainingStart> Start(const NetStart& start) = 0;
  virtual sparse::DenseStore& store() = 0;
  // What the present step is made of, and this process's resume point after it: before the first
  // Push with the images alone, and again before the first Pull with the loss.
  virtual void Describe(uint32_t /*images*/, double /*loss*/,
                        const trainer::ResumePoint& /*after*/) {}
};

struct LocalNetOptions {
  sparse::DenseOptions update;
  std::string checkpoints;  // folder; empty: none are written
  bool resume = false;      // from the newest complete checkpoint
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
