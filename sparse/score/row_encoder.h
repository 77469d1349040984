// SPDX-License-Identifier: Apache-2.0
// Rows of named fields become rows of keys, by the feature spec of a serving model.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "io/base/pod_vector.h"
#include "io/base/status.h"
#include "io/batch/batch_builder.h"
#include "io/features/candidate_encoder.h"
#include "io/features/feature_encoder.h"
#include "io/features/field_row.h"
#include "io/text/json_columns.h"
#include "millrace/score.h"
#include "sparse/score/row_scorer.h"
#include "sparse/score/serving_model.h"

namespace millrace::score {

// Not thread-safe (scratch memory).
class RowEncoder {
 public:
  // What it keeps of another model is released.
  void UseModel(const ServingModel& model);

  // Starts without rows. An error if the model has no feature spec. A row with more than `max_keys`
  // is an error.
  Status Begin(const ServingModel& model, uint64_t max_keys);
  void DropRows() {
    rows_.Clear(/*wide_rows=*/true);
    candidates_.Clear();
  }
  // Append a row. An error names the column, expected and found, and leaves the rows unchanged.
  Status Add(std::span<const millrace_field> fields);
  // False for a blank line.
  Result<bool> AddJson(std::string_view line);

  // The context of the candidates that follow.
  Status SetContext(std::span<const millrace_field> fields);
  Status SetContextJson(std::string_view object);
  // Append the context's row with the columns of the candidate in place of its own.
  Status AddCandidate(std::span<const millrace_field> fields);
  Result<bool> AddCandidateJson(std::string_view line);

  size_t rows() const { return rows_.batch.rows() + candidates_.rows(); }
  size_t entries() const { return rows_.nnz() + candidates_.keys.size(); }
  // The rows without a context. Valid until the next change.
  KeyRows key_rows();
  // Valid until the next context.
  std::span<const uint64_t> context_keys() const { return candidate_encoder_->context_keys(); }
  const float* context_values() const {
    return candidate_encoder_->context_ones() ? nullptr
                                              : candidate_encoder_->context_values().data();
  }
  // Null unless the model is an ffm.
  const uint16_t* context_fields() const { return candidate_encoder_->context_fields().data(); }
  // Valid until the next change.
  CandidateKeys candidates() const;
  // Of all rows since Begin: fields that the spec does not use.
  uint64_t ignored_fields() const { return ignored_; }

 private:
  // A field's name at the same position of an earlier row, and its column.
  struct KnownName {
    std::string_view name;  // of the model
    uint32_t column = kNoColumn;
  };
  static constexpr uint32_t kNoColumn = UINT32_MAX;

  uint32_t ColumnOf(const millrace_field& field, size_t position);
  // To row_.
  Status Read(std::span<const millrace_field> fields);
  Status ReadUnordered(std::span<const millrace_field> fields);
  Result<bool> ReadJson(std::string_view line);
  void DropLabel();

  const ServingModel* model_ = nullptr;  // of the call
  // Of the plan's model:
  std::shared_ptr<const io::EncoderPlan> plan_;
  std::optional<io::FeatureEncoder> encoder_;
  std::optional<io::CandidateEncoder> candidate_encoder_;
  std::optional<io::JsonColumns> json_;
  std::vector<KnownName> known_;

  io::FieldRow row_;
  std::vector<uint32_t> columns_;  // of a row's fields
  std::vector<uint8_t> begun_;     // by column
  io::BatchBuilder rows_;
  io::CandidateRows candidates_;
  PodVector<uint64_t> row_begin_;
  uint64_t ignored_ = 0;
};

}  // namespace millrace::score
