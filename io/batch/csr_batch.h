// A batch of sparse examples in compressed-sparse-row form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "io/base/pod_vector.h"

namespace millrace::io {

// Row r holds the entries [row_begin[r], row_begin[r + 1]) of cols and values.
//
// Compacted: `keys` are the batch's sorted unique feature keys and `cols` index into them, so that
// pulled weights and gradients are short dense vectors beside `keys`. Not compacted (`keys` empty):
// `cols` are the feature indices themselves.
struct CsrBatch {
  PodVector<uint32_t> row_begin;  // rows() + 1
  PodVector<uint32_t> cols;
  PodVector<float> values;   // empty: all ones
  PodVector<float> labels;   // 0 or 1; see kNoLabel
  PodVector<float> weights;  // of the examples; empty: all ones
  PodVector<uint64_t> keys;
  bool compacted = false;

  size_t rows() const { return labels.size(); }
  size_t nnz() const { return cols.size(); }
  void Clear();
};

}  // namespace millrace::io
