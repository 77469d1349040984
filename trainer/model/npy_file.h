// numpy's .npy files, version 1.0: a magic, the length of a Python dictionary that describes the
// array, the dictionary padded to 64 bytes, then the numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace millrace::trainer {

// Of a one-dimensional array. `descr` is a Python literal: "'<f4'".
std::string NpyHeader(std::string_view descr, uint64_t size);

}  // namespace millrace::trainer
