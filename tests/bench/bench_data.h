// SPDX-License-Identifier: Apache-2.0
// Rows like Criteo's, one-hot: 39 features out of 33,762,578, popularity falling with the rank,
// values all one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace millrace::bench {

constexpr size_t kFields = 39;
constexpr uint64_t kNumFeatures = 33762578;

// The keys of `rows` rows, kFields each.
std::vector<uint64_t> MakeKeys(size_t rows, uint64_t seed);

// `rows` encoded examples (39 indices, 39 values of 1.0, label).
std::vector<std::string> MakeExamples(size_t rows, uint64_t seed);

// TFRecord files with `rows` rows in all, made once a process and removed at its end; kept in the
// page cache.
const std::vector<std::string>& MakeFiles(size_t rows, size_t files);

}  // namespace millrace::bench
