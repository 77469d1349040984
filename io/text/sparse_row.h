// SPDX-License-Identifier: Apache-2.0
// One parsed example of a text format: a label and (key, value) pairs in the order of the line.
#pragma once

#include <cstdint>
#include <vector>

namespace millrace::io {

struct SparseRow {
  float label = 0;   // as written; 0, 1 or -1 for logistic regression
  float weight = 1;  // of the example
  std::vector<uint64_t> keys;
  std::vector<float> values;     // as long as keys
  std::vector<uint16_t> fields;  // as long as keys, or empty: the format has none

  void Clear() {
    label = 0;
    weight = 1;
    keys.clear();
    values.clear();
    fields.clear();
  }
  void Add(uint64_t key, float value) {
    keys.push_back(key);
    values.push_back(value);
  }
};

}  // namespace millrace::io
