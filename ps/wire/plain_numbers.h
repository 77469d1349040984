// Numbers that are worked on in memory and lie there as the wire has them unpacked: the byte in
// front of the first one is their format (float_codec.h).
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "io/base/pod_vector.h"
#include "ps/wire/float_codec.h"

namespace millrace::ps {

class PlainNumbers {
 public:
  // Room for `count` numbers; those that were there mean nothing afterwards.
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
