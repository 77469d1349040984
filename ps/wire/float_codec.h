// SPDX-License-Identifier: Apache-2.0
// Gradients and weights on the wire:
//
//   +--------+----------------------------------------------------------+
//   | format | f32 or bf16 numbers, little-endian; in planes and packed |
//   |    1   | by zstd where the format says so                         |
//   +--------+----------------------------------------------------------+
//
// Format bit 0: bf16 (the upper half of an f32, rounded to the nearest even one). Bit 1: zstd; the
// lowest bytes of all numbers come first, then the next ones, so that similar bytes are adjacent.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "io/base/pod_vector.h"
#include "io/base/status.h"
#include "io/record/compressor.h"

namespace millrace::ps {

struct FloatFormat {
  bool bf16 = false;
  bool zstd = false;
};

// Not thread-safe (scratch memory).
class FloatCodec {
 public:
  static constexpr char kPlainFormat = 0;  // the first byte of numbers that are neither
  // Replaces `out`.
  Status Encode(std::span<const float> numbers, FloatFormat format, std::string& out);
  // Bytes per number in `bytes`; 0: packed, so it is not known.
  static size_t RawWidth(std::string_view bytes);
  // Exactly numbers.size() of them, or an error.
  Status Decode(std::string_view bytes, std::span<float> numbers);

 private:
  io::ZstdBlock& zstd();

  std::unique_ptr<io::ZstdBlock> zstd_;
  std::string planes_, halves_;
};

// Numbers in memory that are ready to be sent as they are: the byte in front of the first one is
// the format byte.
class PlainNumbers {
 public:
  // Room for `count` numbers; their content is undefined afterwards.
  std::span<float> Resize(size_t count) {
    floats_.resize(1 + count);
    reinterpret_cast<char*>(floats_.data())[sizeof(float) - 1] = FloatCodec::kPlainFormat;
    return std::span(floats_).subspan(1);
  }
  std::span<float> numbers() { return std::span(floats_).subspan(1); }
  std::span<const float> numbers() const { return std::span(floats_).subspan(1); }
  std::string_view bytes() const {
    const char* begin = reinterpret_cast<const char*>(floats_.data());
    return {begin + sizeof(float) - 1, 1 + numbers().size_bytes()};
  }

 private:
  PodVector<float> floats_ = PodVector<float>(1);
};

}  // namespace millrace::ps
