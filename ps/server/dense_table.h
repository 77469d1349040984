// SPDX-License-Identifier: Apache-2.0
// The dense parameters of a shard: blocks of weights with an update rule. Like Shard, a state
// machine without threads or clocks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/base/pod_vector.h"
#include "io/base/status.h"
#include "ps/server/worker_record.h"
#include "sparse/dense_options.h"

namespace millrace::ps {

// Not thread-safe. Workers are numbered from 0.
class DenseTable {
 public:
  static constexpr size_t kMaxBlocks = 1 << 20;

  DenseTable(const sparse::DenseOptions& options, size_t workers)
      : options_(options), workers_(workers) {}

  // Sets the initial weights, unless the block has weights already.
  Status Init(size_t block, std::span<const float> weights);
  // All blocks of a checkpoint are loaded: Init of another block is an error from now on.
  void Close() { is_closed_ = true; }
  bool Has(size_t block) const { return block < blocks_.size() && blocks_[block].ready; }

  struct Gradient {
    size_t worker = 0;
    uint64_t sequence = 0;
    uint64_t step = 0;  // of the block, whose weights it was computed from
    uint32_t rows = 0;
    std::span<const float> mean;  // over the rows
  };
  // Receives a gradient if its sequence is new. `at_once`: applies it. Otherwise it stays pending
  // until ApplyIfComplete, or is dropped if its step is complete already.
  Status Push(size_t block, const Gradient& gradient, bool at_once);
  // Applies the mean gradient over all rows, in the order of workers, once enough gradients have
  // arrived. True if it did.
  bool ApplyIfComplete(size_t block, const StepQuorum& quorum);
  // Tries all blocks: when fewer workers are needed than before.
  void ApplyComplete(const StepQuorum& quorum);

  // Whether every block is at that step.
  bool AllAt(uint64_t steps) const;
  // Drops gradients that are pending.
  void DropPending();

  // Whether what the worker has pushed up to that sequence is in the weights (or was dropped).
  bool Applied(size_t block, size_t worker, uint64_t sequence) const {
    return blocks_[block].applied[worker] >= sequence;
  }
  struct View {
    std::span<const float> weights;
    uint64_t steps = 0;
  };
  // The weights for a worker that has pushed up to `sequence`. A worker that was lost in the middle
  // of a step repeats it: from blocks that have completed the step it gets the weights before it.
  View For(size_t block, size_t worker, uint64_t sequence) const;
  std::span<const float> weights(size_t block) const { return blocks_[block].weights; }
  uint64_t steps(size_t block) const { return blocks_[block].steps; }
  size_t size() const { return blocks_.size(); }

  // For checkpoints: weights and state of a block as one array.
  std::span<const float> state(size_t block) const { return blocks_[block].state; }
  Status Load(size_t block, std::span<const float> weights, std::span<const float> state,
              uint64_t steps, std::span<const uint64_t> sequences);
  std::span<const uint64_t> sequences(size_t block) const { return blocks_[block].applied; }

 private:
  struct Pending {
    uint32_t rows = 0;  // 0: none
    uint64_t sequence = 0;
    PodVector<float> gradient;
  };
  struct Block {
    bool ready = false;
    PodVector<float> weights, state;
    PodVector<float> before;  // weights before the last update of several workers together
    uint64_t steps = 0;
    std::vector<Pending> pending;      // by worker
    std::vector<uint64_t> received;    // sequence of the last gradient, by worker
    std::vector<uint64_t> applied;     // and of the last one that is in the weights
    std::vector<uint64_t> dropped_at;  // the block's steps when one was dropped as late, by worker
  };

  void Apply(Block& block, std::span<const float> gradient);

  sparse::DenseOptions options_;
  size_t workers_;
  std::vector<Block> blocks_;
  bool is_closed_ = false;
  PodVector<float> mean_;
};

}  // namespace millrace::ps
