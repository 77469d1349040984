// The names of the features of a Criteo vocabulary.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "io/base/status.h"

namespace millrace::io {

// Reads the vocabulary file (see criteo.h) and gives each key of `names` its name: "C7=6fcd6dcb",
// "I1=12..13" (a range of integers), "I1=missing", "C7=other" (unseen or rare values). Keys that
// the file does not have keep what they had. Of the file, one line at a time is in memory. Returns
// the vocabulary's num_features.
Result<uint64_t> FillCriteoNames(const std::string& path,
                                 std::unordered_map<uint64_t, std::string>& names);

// The integers that a token of a column I1 to I13 stands for: "7", "12..13", "-9..-8"; the token
// itself where no integer has it.
std::string CriteoIntegerRange(uint64_t token);

}  // namespace millrace::io
