// Bytes to the numbers that a net takes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "io/base/cpu.h"

namespace millrace::convnets {

// to[i] = (from[i] - mean) * factor; the same bits with every instruction set.
void BytesToFloats(const uint8_t* from, size_t size, float mean, float factor, float* to,
                   CpuLevel level = DetectCpuLevel());

}  // namespace millrace::convnets
