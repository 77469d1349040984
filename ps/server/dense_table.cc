// SPDX-License-Identifier: Apache-2.0
#include "ps/server/dense_table.h"

#include <algorithm>
#include <string>

#include "profiler/trace.h"
#include "sparse/dense_rules.h"

namespace millrace::ps {

Status DenseTable::Init(size_t block, std::span<const float> weights) {
  if (block >= kMaxBlocks) {
    return Invalid("dense block " + std::to_string(block) + ": expected below " +
                   std::to_string(kMaxBlocks));
  }
  if (is_closed_ && !Has(block)) {
    return Invalid("dense block " + std::to_string(block) +
                   ": not in the checkpoint, whose net was cut differently");
  }
  if (block >= blocks_.size()) blocks_.resize(block + 1);
  Block& b = blocks_[block];
  if (b.ready && b.weights.size() != weights.size()) {
    return Invalid("dense block " + std::to_string(block) + ": expected " +
                   std::to_string(b.weights.size()) + " numbers, found " +
                   std::to_string(weights.size()));
  }
  if (b.ready) return {};
  b.ready = true;
  b.weights.assign(weights.begin(), weights.end());
  b.state.assign(options_.state_planes() * weights.size(), 0.0f);
  b.pending.resize(workers_);
  b.received.resize(workers_);
  b.applied.resize(workers_);
  b.dropped_at.assign(workers_, ~uint64_t{0});
  return {};
}

void DenseTable::Apply(Block& block, std::span<const float> gradient) {
  TRACE_SCOPE("apply", profiler::Cat::kServer,
              {.bytes = static_cast<int64_t>(gradient.size_bytes())});
  sparse::ApplyDense(options_, ++block.steps, gradient, block.weights, block.state);
}

Status DenseTable::Push(size_t block, const Gradient& gradient, bool at_once) {
  Block& b = blocks_[block];
  if (gradient.mean.size() != b.weights.size()) {
    return Invalid("dense block " + std::to_string(block) + ": expected " +
                   std::to_string(b.weights.size()) + " gradients, found " +
                   std::to_string(gradient.mean.size()));
  }
  uint64_t& received = b.received[gradient.worker];
  if (gradient.sequence <= received) return {};
  if (gradient.sequence != received + 1 || gradient.rows == 0 || gradient.step > b.steps) {
    return Invalid("dense block " + std::to_string(block) + ": expected push " +
                   std::to_string(received + 1) + " of at least a row, found " +
                   std::to_string(gradient.sequence) + " of " + std::to_string(gradient.rows));
  }
  received = gradient.sequence;
  const bool too_late = !at_once && gradient.step < b.steps;
  if (at_once || too_late) {
    b.applied[gradient.worker] = gradient.sequence;
    if (at_once) {
      Apply(b, gradient.mean);
    } else {
      b.dropped_at[gradient.worker] = b.steps;
    }
    return {};
  }
  Pending& pending = b.pending[gradient.worker];
  pending.rows = gradient.rows;
  pending.sequence = gradient.sequence;
  pending.gradient.assign(gradient.mean.begin(), gradient.mean.end());
  return {};
}

bool DenseTable::ApplyIfComplete(size_t block, const StepQuorum& quorum) {
  Block& b = blocks_[block];
  if (!b.ready) return false;
  uint64_t rows = 0;
  size_t count = 0, late = 0;
  for (size_t w = 0; w < b.pending.size(); ++w) {
    rows += b.pending[w].rows;
    count += b.pending[w].rows > 0 ? 1 : 0;
    late += b.pending[w].rows == 0 && b.dropped_at[w] == b.steps ? 1 : 0;
  }
  if (count == 0 || !quorum.IsEnough(count, late)) return false;
  mean_.assign(b.weights.size(), 0.0f);
  for (size_t w = 0; w < b.pending.size(); ++w) {
    Pending& pending = b.pending[w];
    if (pending.rows == 0) continue;
    const auto share =
        static_cast<float>(static_cast<double>(pending.rows) / static_cast<double>(rows));
    for (size_t i = 0; i < mean_.size(); ++i) mean_[i] += share * pending.gradient[i];
    pending.rows = 0;
    b.applied[w] = pending.sequence;
  }
  b.before.assign(b.weights.begin(), b.weights.end());
  Apply(b, mean_);
  return true;
}

bool DenseTable::AllAt(uint64_t steps) const {
  return std::all_of(blocks_.begin(), blocks_.end(),
                     [&](const Block& block) { return !block.ready || block.steps == steps; });
}

void DenseTable::DropPending() {
  for (Block& block : blocks_) {
    for (Pending& pending : block.pending) pending.rows = 0;
  }
}

DenseTable::View DenseTable::For(size_t block, size_t worker, uint64_t sequence) const {
  const Block& b = blocks_[block];
  if (b.applied[worker] > sequence && !b.before.empty()) return {b.before, b.steps - 1};
  return {b.weights, b.steps};
}

void DenseTable::ApplyComplete(const StepQuorum& quorum) {
  for (size_t block = 0; block < blocks_.size(); ++block) ApplyIfComplete(block, quorum);
}

Status DenseTable::Load(size_t block, std::span<const float> weights, std::span<const float> state,
                        uint64_t steps, std::span<const uint64_t> sequences) {
  RETURN_IF_ERROR(Init(block, weights));
  Block& b = blocks_[block];
  if (state.size() != b.state.size() || sequences.size() != workers_) {
    return Corrupt("dense block " + std::to_string(block) + ": expected " +
                   std::to_string(b.state.size()) + " numbers of state, found " +
                   std::to_string(state.size()));
  }
  std::copy(weights.begin(), weights.end(), b.weights.begin());
  std::copy(state.begin(), state.end(), b.state.begin());
  b.steps = steps;
  b.received.assign(sequences.begin(), sequences.end());
  b.applied = b.received;
  return {};
}

}  // namespace millrace::ps
