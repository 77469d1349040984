// SPDX-License-Identifier: Apache-2.0
// Files of generated rows, for tests that train.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "io/base/random.h"
#include "io/example/example_encoder.h"
#include "io/record/record_writer.h"

namespace millrace::test {

inline constexpr uint64_t kFeatures = 2000;

// Rows of six features with a hidden weight each. A model needs several epochs for them.
inline void WriteRows(const std::string& path, uint64_t seed, int rows) {
  auto writer = io::RecordWriter::Create(path);
  ASSERT_TRUE(writer.ok());
  Random random(seed);
  std::string record;
  for (int r = 0; r < rows; ++r) {
    std::vector<uint64_t> keys;
    double margin = -1;
    for (int i = 0; i < 6; ++i) {
      const uint64_t key = random.Below(random.Below(kFeatures) + 1);
      keys.push_back(key);
      margin += static_cast<double>(Mix64(key + 99) % 1000) / 250 - 2;
    }
    const bool label = random.Uniform() < 1 / (1 + std::exp(-margin));
    io::EncodeSparseExample({}, label, keys, {}, record);
    ASSERT_TRUE(writer->Append(record).ok());
  }
  ASSERT_TRUE(writer->Close().ok());
}

}  // namespace millrace::test
