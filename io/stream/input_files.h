// What is asked of input files before any of them is read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/base/status.h"

namespace millrace::io {

// An error names the first file that is missing, locked or a directory: better found now than in an
// hour. FIFOs and the like are opened when their turn comes; "-" is standard input.
Status CheckInputFiles(const std::vector<std::string>& files);
// An error names the first one that cannot be read a second time: a second epoch would wait for
// another writer, for ever.
Status CheckReadableAgain(const std::vector<std::string>& files);

// Tells files apart by their number, order, sizes and both ends, wherever they lie.
uint64_t FingerprintOf(const std::vector<std::string>& files);

}  // namespace millrace::io
