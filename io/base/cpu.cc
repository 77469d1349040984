// SPDX-License-Identifier: Apache-2.0
#include "io/base/cpu.h"

namespace millrace {
namespace {

// AMD processors before Zen 3 run PEXT in microcode (20 to 300 cycles): plain loops are faster.
bool HasFastPext() {
  if (!__builtin_cpu_supports("bmi2")) return false;
  return !(__builtin_cpu_is("amdfam15h") || __builtin_cpu_is("znver1") ||
           __builtin_cpu_is("znver2"));
}

CpuLevel Detect() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("pclmul"))
    return CpuLevel::kPlain;
  if (!__builtin_cpu_supports("avx2") || !HasFastPext()) return CpuLevel::kSse42;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512vbmi") ||
      !__builtin_cpu_supports("avx512vbmi2")) {
    return CpuLevel::kAvx2;
  }
  return CpuLevel::kAvx512;
#else
  return CpuLevel::kPlain;
#endif
}

}  // namespace

CpuLevel DetectCpuLevel() {
  static const CpuLevel level = Detect();
  return level;
}

bool HasFastGathers() {
#if defined(__x86_64__)
  static const bool fast = (__builtin_cpu_init(), !__builtin_cpu_is("amd"));
  return fast;
#else
  return false;
#endif
}

const char* CpuLevelName(CpuLevel level) {
  switch (level) {
    case CpuLevel::kPlain:
      return "plain";
    case CpuLevel::kSse42:
      return "sse4.2";
    case CpuLevel::kAvx2:
      return "avx2";
    case CpuLevel::kAvx512:
      return "avx512";
  }
  return "unknown";
}

}  // namespace millrace
