// SPDX-License-Identifier: Apache-2.0
// A large zeroed array on 2 MB pages, where the system provides them. On small pages, address
// translation limits random access to arrays of several megabytes.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <new>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

namespace millrace {

// Says how much memory could not be allocated.
class AllocationError : public std::bad_alloc {
 public:
  explicit AllocationError(double bytes) {
    std::snprintf(text_, sizeof text_, "cannot allocate %.3g GB", bytes * 1e-9);
  }
  const char* what() const noexcept override { return text_; }

 private:
  char text_[48];
};

// ": cannot allocate 1.2 GB", or nothing for another std::bad_alloc.
inline std::string AllocationText(const std::bad_alloc& error) {
  const auto* sized = dynamic_cast<const AllocationError*>(&error);
  return sized ? std::string(": ") + sized->what() : std::string();
}

template <typename T>
class HugeArray {
  // Elements are used as mapped: no constructor runs.
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  HugeArray() = default;
  // Throws AllocationError where std::vector throws std::bad_alloc.
  explicit HugeArray(size_t size) : size_(size) {
    if (size == 0) return;
    const double bytes = static_cast<double>(size) * sizeof(T);
    if (size > (~size_t{0} - kPage) / sizeof(T)) throw AllocationError(bytes);
    mapped_bytes_ = size * sizeof(T) + kPage;
    map_ =
        ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map_ == MAP_FAILED) {
      map_ = nullptr;
      throw AllocationError(bytes);
    }
    ::madvise(map_, mapped_bytes_, MADV_HUGEPAGE);  // only a hint: small pages work too
    const auto address = reinterpret_cast<size_t>(map_);
    data_ = reinterpret_cast<T*>((address + kPage - 1) / kPage * kPage);
  }
  ~HugeArray() {
    if (map_) ::munmap(map_, mapped_bytes_);
  }
  HugeArray(HugeArray&& other) noexcept { Swap(other); }
  HugeArray& operator=(HugeArray&& other) noexcept {
    Swap(other);
    return *this;
  }

  // Maps the pages of `count` elements from `begin` on now instead of at their first use. Old
  // kernels ignore it. Safe while other threads use the array.
  void Populate(size_t begin, size_t count) const {
    const size_t from = begin * sizeof(T) / kPage * kPage;
    const size_t end = std::min((begin + count) * sizeof(T), size_ * sizeof(T));
#if defined(MADV_POPULATE_WRITE)
    if (from < end)
      ::madvise(reinterpret_cast<char*>(data_) + from, end - from, MADV_POPULATE_WRITE);
#else
    (void)end;
#endif
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  std::span<T> span() { return {data_, size_}; }
  std::span<const T> span() const { return {data_, size_}; }

 private:
  static constexpr size_t kPage = size_t{2} << 20;

  void Swap(HugeArray& other) {
    std::swap(map_, other.map_);
    std::swap(mapped_bytes_, other.mapped_bytes_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

  void* map_ = nullptr;
  size_t mapped_bytes_ = 0;
  T* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace millrace
