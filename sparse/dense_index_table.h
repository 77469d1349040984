// SPDX-License-Identifier: Apache-2.0
// A table with a slot for each key from 0 to num_features - 1, on large pages.
#pragma once

#include <cstdint>
#include <stop_token>
#include <thread>

#include "io/base/huge_array.h"

namespace millrace::sparse {

template <typename Slot>
class DenseIndexTable {
 public:
  // A separate thread maps the pages of a large table. Otherwise the first training steps would
  // zero some hundred megabytes page by page.
  explicit DenseIndexTable(uint64_t num_features) : slots_(num_features) {
    if (num_features * sizeof(Slot) < kPopulateFrom) return;
    populating_ = std::jthread([this](const std::stop_token& stop) {
      for (uint64_t at = 0; at < slots_.size() && !stop.stop_requested(); at += kPopulateSlots) {
        slots_.Populate(at, kPopulateSlots);
      }
    });
  }
  DenseIndexTable(const DenseIndexTable&) = delete;
  DenseIndexTable& operator=(const DenseIndexTable&) = delete;

  void Prefetch(uint64_t key) const { __builtin_prefetch(&slots_[key], 1); }
  // All zero if the feature was never seen.
  const Slot& Get(uint64_t key) const { return slots_[key]; }
  Slot& At(uint64_t key) { return slots_[key]; }
  bool Holds(uint64_t key) const { return key < slots_.size(); }

  Slot* data() { return slots_.data(); }
  const Slot* data() const { return slots_.data(); }

  // Calls visit(key, slot) for every feature in the order of keys.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (uint64_t key = 0; key < slots_.size(); ++key) visit(key, slots_[key]);
  }

 private:
  static constexpr uint64_t kPopulateFrom = 64 << 20;                   // bytes
  static constexpr uint64_t kPopulateSlots = (8 << 20) / sizeof(Slot);  // at a time

  HugeArray<Slot> slots_;
  std::jthread populating_;  // last: stops before the slots are destroyed
};

}  // namespace millrace::sparse
