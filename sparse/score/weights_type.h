// SPDX-License-Identifier: Apache-2.0
// How the numbers of a serving model are stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "io/base/half.h"
#include "io/base/status.h"

namespace millrace::score {

enum class WeightsType { kF32, kF16, kBf16 };

inline const char* WeightsTypeName(WeightsType type) {
  return type == WeightsType::kF32 ? "f32" : type == WeightsType::kF16 ? "f16" : "bf16";
}

// Accepts "f32", "f16", "bf16".
inline Result<WeightsType> WeightsTypeFromName(std::string_view name) {
  for (const WeightsType type : {WeightsType::kF32, WeightsType::kF16, WeightsType::kBf16}) {
    if (name == WeightsTypeName(type)) return type;
  }
  return Invalid("weights: expected f32, f16 or bf16, found '" + std::string(name) + "'");
}

inline size_t BytesOf(WeightsType type) { return type == WeightsType::kF32 ? 4 : 2; }

// One number at any address.
template <WeightsType kType>
float LoadNumber(const char* at) {
  if constexpr (kType == WeightsType::kF32) {
    float number;
    std::memcpy(&number, at, sizeof number);
    return number;
  } else {
    uint16_t half;
    std::memcpy(&half, at, sizeof half);
    return kType == WeightsType::kF16 ? FromF16(half) : FromBf16(half);
  }
}

}  // namespace millrace::score
