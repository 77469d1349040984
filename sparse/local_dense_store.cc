// SPDX-License-Identifier: Apache-2.0
#include "sparse/local_dense_store.h"

#include <new>
#include <string>
#include <utility>

#include "profiler/trace.h"
#include "sparse/dense_rules.h"

namespace millrace::sparse {

LocalDenseStore::LocalDenseStore(const DenseOptions& options, ParallelFor parallel_for)
    : options_(options), parallel_for_(std::move(parallel_for)) {}

Status LocalDenseStore::Init(std::span<const DenseParam> params) {
  CHECK(slots_.empty());
  try {
    for (const DenseParam& param : params) {
      slots_.push_back({.weights = param.weights,
                        .state = HugeArray<float>(options_.state_planes() * param.weights.size())});
    }
  } catch (const std::bad_alloc& error) {
    return Invalid("not enough memory for the optimizer's state" + AllocationText(error));
  }
  return {};
}

Status LocalDenseStore::Push(size_t param, std::span<const float> gradient) {
  TRACE_SCOPE("update", profiler::Cat::kCompute,
              {.bytes = static_cast<int64_t>(gradient.size_bytes())});
  RETURN_IF_ERROR(CheckParam(param));
  Slot& slot = slots_[param];
  if (gradient.size() != slot.weights.size()) {
    return Invalid("gradient of parameter " + std::to_string(param) + ": expected " +
                   std::to_string(slot.weights.size()) + " numbers, found " +
                   std::to_string(gradient.size()));
  }
  ++slot.steps;
  const auto apply = [&](size_t begin, size_t end) {
    ApplyDensePart(options_, slot.steps, gradient.subspan(begin, end - begin), begin, slot.weights,
                   slot.state.span());
  };
  if (parallel_for_) {
    parallel_for_(gradient.size(), apply);
  } else {
    apply(0, gradient.size());
  }
  return {};
}

Status LocalDenseStore::Pull(size_t param) { return CheckParam(param); }

void LocalDenseStore::set_steps(uint64_t steps) {
  for (Slot& slot : slots_) slot.steps = steps;
}

Status LocalDenseStore::CheckParam(size_t param) const {
  if (param < slots_.size()) return {};
  return Invalid("parameter: expected below " + std::to_string(slots_.size()) + ", found " +
                 std::to_string(param));
}

}  // namespace millrace::sparse
