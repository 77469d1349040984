// The loops over a list of keys on its way to the wire and back, by what the processor can do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "io/base/cpu.h"

namespace millrace::ps {

// Bytes that one key may take, and that may be written behind the last one.
constexpr size_t kMaxKeyBytes = 10;
constexpr size_t kKeyWriteSlack = 64;

// Writes the difference of each key to the one before it (of the first one: to `last`) as varints.
// Returns the end of what was written.
using PutKeysFunction = char* (*)(std::span<const uint64_t> keys, uint64_t last, char* out);
PutKeysFunction PutKeysFor(CpuLevel level);

// keys[i] = steps[0] + ... + steps[i]. False if a step but the first is 0.
using SumStepsFunction = bool (*)(std::span<const uint32_t> steps, uint64_t* keys);
SumStepsFunction SumStepsFor(CpuLevel level);

}  // namespace millrace::ps
