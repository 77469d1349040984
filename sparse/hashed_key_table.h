// SPDX-License-Identifier: Apache-2.0
// A hash table of slots for any 64-bit key. It grows with the number of keys.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "io/base/huge_array.h"
#include "io/base/random.h"

namespace millrace::sparse {

// Open addressing with linear probing. A key is stored next to its slot, so that a hit costs one
// cache line.
template <typename Slot>
class HashedKeyTable {
 public:
  HashedKeyTable() : entries_(kMinCapacity) {}

  void Prefetch(uint64_t key) const { __builtin_prefetch(&entries_[FirstProbe(key)], 1); }

  const Slot& Get(uint64_t key) const {
    static constexpr Slot kUnseen{};
    const Entry& entry = entries_[Find(key)];
    return entry.used ? entry.slot : kUnseen;
  }
  // Adds the key if it is new. References are valid until the next new key.
  Slot& At(uint64_t key) {
    size_t at = Find(key);
    if (entries_[at].used) return entries_[at].slot;
    if (size_ + 1 > entries_.size() / 8 * 5) {
      Grow();
      at = Find(key);
    }
    ++size_;
    entries_[at].used = 1;
    entries_[at].key = key;
    return entries_[at].slot;
  }
  bool Holds(uint64_t) const { return true; }
  uint64_t size() const { return size_; }

  // Calls visit(key, slot) in the order of keys, independent of the order of insertion.
  template <typename Visit>
  void ForEach(Visit visit) const {
    std::vector<const Entry*> entries;
    entries.reserve(size_);
    for (const Entry& entry : entries_.span()) {
      if (entry.used) entries.push_back(&entry);
    }
    std::sort(entries.begin(), entries.end(),
              [](const Entry* a, const Entry* b) { return a->key < b->key; });
    for (const Entry* entry : entries) visit(entry->key, entry->slot);
  }

 private:
  static constexpr size_t kMinCapacity = 1024;
  struct Entry {
    uint64_t key;
    Slot slot;
    uint32_t used;
  };

  size_t FirstProbe(uint64_t key) const { return Mix64(key) & (entries_.size() - 1); }
  // The position of the key, or the free position where it belongs.
  size_t Find(uint64_t key) const {
    size_t at = FirstProbe(key);
    while (entries_[at].used && entries_[at].key != key) at = (at + 1) & (entries_.size() - 1);
    return at;
  }
  void Grow() {
    HugeArray<Entry> old(2 * entries_.size());
    std::swap(old, entries_);
    for (const Entry& entry : old.span()) {
      if (entry.used) entries_[Find(entry.key)] = entry;
    }
  }

  HugeArray<Entry> entries_;
  size_t size_ = 0;
};

}  // namespace millrace::sparse
