// SPDX-License-Identifier: Apache-2.0
// A table of named columns in memory (a pandas frame) as rows of named fields, for a feature spec.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "io/base/pod_vector.h"
#include "io/base/status.h"
#include "io/features/feature_encoder.h"
#include "io/features/feature_spec.h"
#include "io/features/field_row.h"

namespace millrace::python {

// The values of each row; texts are views of memory that the caller keeps.
struct FrameCells {
  PodVector<uint64_t> row_begin;  // rows + 1
  PodVector<io::FieldValue> values;
};

// A NaN is a missing value.
struct FrameColumn {
  std::string name;
  std::variant<std::span<const int64_t>, std::span<const float>, std::span<const double>,
               FrameCells>
      values;

  size_t rows() const;
  // Adds the value or values of a row to the current column of `to`.
  void Add(size_t row, io::FieldRow& to) const;
};

// CSR arrays, with 64-bit columns.
struct EncodedRows {
  PodVector<int64_t> row_begin;
  PodVector<int64_t> columns;
  PodVector<float> values;   // empty: all ones
  PodVector<float> labels;   // NaN: the row has none
  PodVector<float> weights;  // empty: all ones
};

// An error names the row. `labels`: whether each row must have one. `should_stop` is called every
// some thousand rows; its error ends the work.
Result<EncodedRows> EncodeFrame(const std::shared_ptr<const io::EncoderPlan>& plan,
                                std::span<const FrameColumn> columns, size_t rows,
                                io::Labels labels, const std::function<Status()>& should_stop);

// The first pass: what the spec leaves open is found in the frame.
Result<io::FeatureSpec> FitFrame(const io::FeatureSpec& spec, std::span<const FrameColumn> columns,
                                 size_t rows, const std::function<Status()>& should_stop);

}  // namespace millrace::python
