// SPDX-License-Identifier: Apache-2.0
// A batch of sparse examples in compressed-sparse-row form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "io/base/pod_vector.h"

namespace millrace::io {

// The key of the intercept in every list of keys, file and message; no row may have it. It is the
// largest one, so it comes last in a sorted list. The intercept is not an entry of the batch: its
// value is 1 in every row.
constexpr uint64_t kInterceptKey = std::numeric_limits<uint64_t>::max();

// Whether a sorted list of keys ends with that of the intercept.
inline bool HasIntercept(std::span<const uint64_t> keys) {
  return !keys.empty() && keys.back() == kInterceptKey;
}
// The list without it.
inline std::span<const uint64_t> FeatureKeys(std::span<const uint64_t> keys) {
  return keys.first(keys.size() - (HasIntercept(keys) ? 1 : 0));
}

// "17", or "(intercept)".
inline std::string KeyName(uint64_t key) {
  return key == kInterceptKey ? "(intercept)" : std::to_string(key);
}

// Row r has the entries [row_begin[r], row_begin[r + 1]) of cols and values.
//
// A compacted batch has the sorted unique feature keys in `keys`, and `cols` are positions in
// `keys`: pulled weights and gradients are short dense vectors parallel to `keys`. In a batch that
// is not compacted `keys` is empty and `cols` are the feature indices themselves.
struct CsrBatch {
  PodVector<uint32_t> row_begin;  // rows() + 1
  PodVector<uint32_t> cols;
  PodVector<float> values;  // empty: all ones
  // The number of the field of each entry, parallel to cols and below RowOptions::num_fields.
  // Empty: not asked for.
  PodVector<uint16_t> fields;
  PodVector<float> labels;   // 0 or 1; see kNoLabel
  PodVector<float> weights;  // of the examples; empty: all ones
  PodVector<uint64_t> keys;
  bool compacted = false;
  // The entries of all rows that the reader left out (RowOptions::unknown_key).
  PodVector<uint64_t> unknown_keys;
  PodVector<float> unknown_values;

  size_t rows() const { return labels.size(); }
  size_t nnz() const { return cols.size(); }
  void Clear() {
    row_begin.assign(1, 0);
    cols.clear();
    values.clear();
    fields.clear();
    labels.clear();
    weights.clear();
    keys.clear();
    compacted = false;
    unknown_keys.clear();
    unknown_values.clear();
  }
};

// What happens to an entry whose key is not below num_features: it makes the row an error, or it is
// left out of the row (and goes to unknown_keys).
enum class UnknownKey { kError, kLeaveOut };

// Whether a row may lack a label. With kOptional, which is for scoring, such a row gets kNoLabel; a
// label that is present must still be valid.
enum class Labels { kRequired, kOptional };

// Field numbers are below it.
constexpr size_t kMaxFields = size_t{1} << 16;

constexpr float kNoLabel = std::numeric_limits<float>::quiet_NaN();

}  // namespace millrace::io
