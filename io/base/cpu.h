// What this machine's processor can do; asked once, then a plain read.
#pragma once

namespace millrace {

enum class CpuLevel {
  kPlain,   // any x86-64
  kSse42,   // CRC-32C instruction
  kAvx2,    // AVX2, BMI2 with a fast PEXT, PCLMULQDQ
  kAvx512,  // AVX-512 F, BW, VL, VBMI, VBMI2 on top
};

// The best level that kernels may use here.
CpuLevel DetectCpuLevel();

// Whether a gather beats as many plain loads. It does on Intel's processors; those of AMD take one
// apart into more operations than the loads would be.
bool HasFastGathers();

const char* CpuLevelName(CpuLevel level);

}  // namespace millrace
