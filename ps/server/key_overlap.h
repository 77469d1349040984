// Where two key lists have the same keys.
#pragma once

#include <cstdint>
#include <span>

#include "io/base/pod_vector.h"

namespace millrace::ps {

// Memory is used again. Not thread-safe.
class KeyOverlap {
 public:
  // Both are sorted and unique, with fewer than 2^32 keys.
  void Find(std::span<const uint64_t> left, std::span<const uint64_t> right);

  // left[left_places()[i]] == right[right_places()[i]], ascending.
  std::span<const uint32_t> left_places() const { return left_places_; }
  std::span<const uint32_t> right_places() const { return right_places_; }

 private:
  PodVector<uint32_t> left_places_, right_places_;
};

}  // namespace millrace::ps
