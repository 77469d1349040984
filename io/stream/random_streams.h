// The purposes that random numbers are drawn for, so that no two share a stream of one seed.
#pragma once

#include <cstdint>

namespace millrace::io {

constexpr uint64_t kFileOrderStream = 1;
constexpr uint64_t kShuffleStream = 2;

}  // namespace millrace::io
