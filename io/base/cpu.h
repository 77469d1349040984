// SPDX-License-Identifier: Apache-2.0
// The instruction sets of this machine's processor. Detected once; later calls are a plain read.
#pragma once

namespace millrace {

enum class CpuLevel {
  kPlain,   // any x86-64
  kSse42,   // CRC-32C instruction
  kAvx2,    // AVX2, BMI2 with a fast PEXT, PCLMULQDQ
  kAvx512,  // AVX2 and AVX-512 F, BW, VL, VBMI, VBMI2
};

// The highest level that kernels may use on this machine.
CpuLevel DetectCpuLevel();

// Whether a gather instruction is faster than separate loads. It is on Intel processors; AMD
// processors split it into more operations than separate loads need.
bool HasFastGathers();

const char* CpuLevelName(CpuLevel level);

}  // namespace millrace
