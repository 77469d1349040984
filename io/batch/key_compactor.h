// SPDX-License-Identifier: Apache-2.0
// Replaces the feature keys of a batch by positions in the sorted list of unique keys. Every step
// on compacted batches needs it, so tests/bench/compactor_bench.cc compares several designs.
#pragma once

#include <cstdint>
#include <span>

#include "io/base/cpu.h"
#include "io/base/huge_array.h"
#include "io/base/pod_vector.h"

namespace millrace::io {

// Not thread-safe (scratch memory): use one per thread.
class KeyCompactor {
 public:
  // Keys are below `num_features`; 0: any 64-bit key. Up to kMaxBitmapFeatures features need
  // num_features / 4 bytes of memory; above that, memory depends on the batch size.
  static constexpr uint64_t kMaxBitmapFeatures = uint64_t{1} << 27;
  explicit KeyCompactor(uint64_t num_features, CpuLevel level = DetectCpuLevel());

  // On entry `cols` are keys, on return positions in `keys`, which are sorted and unique.
  void Compact(std::span<uint32_t> cols, PodVector<uint64_t>& keys);
  // The same for keys of 64 bits; fills `cols`.
  void Compact(std::span<const uint64_t> wide_keys, PodVector<uint32_t>& cols,
               PodVector<uint64_t>& keys);

 private:
  // 64 neighbouring keys: which of them the batch contains, and the position of the first one. All
  // zero between batches.
  struct Word {
    uint64_t present;
    uint32_t position;
  };
  struct Slot {
    uint64_t key;
    uint32_t stamp;
    uint32_t id;
  };

  template <typename Key>
  void Deduplicate(std::span<const Key> keys_in, uint32_t* ids);
  void SortUnique();

  bool fast_bits_;
  // Bitmap design (narrow keys).
  PodVector<uint32_t> words_a_, words_b_;  // numbers of the words that the batch touches
  HugeArray<Word> words_;
  // Hash design.
  std::vector<Slot> slots_;
  uint32_t stamp_ = 0;
  struct Unique {
    uint64_t key;
    uint32_t id;
  };
  PodVector<Unique> unique_, sorted_;
  PodVector<uint32_t> rank_;
};

}  // namespace millrace::io
