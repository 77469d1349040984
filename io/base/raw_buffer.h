// SPDX-License-Identifier: Apache-2.0
// A growing byte buffer that does not zero new bytes. Some bytes past its end are readable, so that
// kernels may load past it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>

namespace millrace {

class RawBuffer {
 public:
  // Bytes past size() that may be read; their content is unspecified.
  static constexpr size_t kPadding = 64;

  char* data() { return bytes_.get(); }
  const char* data() const { return bytes_.get(); }
  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }
  void clear() { size_ = 0; }

  // New bytes are uninitialized. The capacity at least doubles when it grows.
  void Resize(size_t size) {
    if (size > capacity_) Reserve(std::max(size, 2 * capacity_));
    size_ = size;
  }

  void Append(const char* data, size_t size) {
    const size_t old = size_;
    Resize(old + size);
    if (size > 0) std::memcpy(bytes_.get() + old, data, size);
  }

 private:
  void Reserve(size_t capacity) {
    auto grown = std::make_unique_for_overwrite<char[]>(capacity + kPadding);
    if (size_ > 0) std::memcpy(grown.get(), bytes_.get(), size_);
    std::memset(grown.get() + capacity, 0, kPadding);
    bytes_ = std::move(grown);
    capacity_ = capacity;
  }

  std::unique_ptr<char[]> bytes_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace millrace
