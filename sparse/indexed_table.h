// The slots of an indexed model: one for each feature from 0 to num_features - 1, on large pages.
#pragma once

#include <cstdint>

#include "io/base/huge_array.h"

namespace millrace::sparse {

template <typename Slot>
class IndexedTable {
 public:
  explicit IndexedTable(uint64_t num_features) : slots_(num_features) {}

  void Prefetch(uint64_t key) const { __builtin_prefetch(&slots_[key], 1); }
  // The state of a feature that may never have been seen; all zero then.
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
  io::HugeArray<Slot> slots_;
};

}  // namespace millrace::sparse
