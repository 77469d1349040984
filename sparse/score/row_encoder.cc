// SPDX-License-Identifier: Apache-2.0
#include "sparse/score/row_encoder.h"

#include <algorithm>
#include <string>

namespace millrace::score {
namespace {

Status AddValue(const millrace_field& field, io::FieldRow& row) {
  switch (field.kind) {
    case MILLRACE_SCORE_TEXT:
      if (field.value.text.size > UINT32_MAX) {
        return Invalid("field '" + std::string(field.name, field.name_size) +
                       "': expected a text below 4 GB");
      }
      row.AddText({field.value.text.data, field.value.text.size});
      return {};
    case MILLRACE_SCORE_INT:
      row.AddInt(field.value.integer);
      return {};
    case MILLRACE_SCORE_FLOAT:
      row.AddFloat(static_cast<float>(field.value.number));
      return {};
    case MILLRACE_SCORE_DOUBLE:
      row.AddDouble(field.value.number);
      return {};
  }
  return Invalid("field '" + std::string(field.name, field.name_size) +
                 "': expected a kind from 0 to 3, found " + std::to_string(field.kind));
}

}  // namespace

void RowEncoder::UseModel(const ServingModel& model) {
  if (plan_ == model.features()) return;
  plan_.reset();
  encoder_.reset();
  candidate_encoder_.reset();
  json_.reset();
  known_.clear();
}

Status RowEncoder::Begin(const ServingModel& model, uint64_t max_keys) {
  model_ = &model;
  if (!model.features()) {
    return Invalid(model.path() +
                   ": rows of named fields need a model with a feature spec; this one scores keys");
  }
  if (!encoder_) {
    plan_ = model.features();
    const bool has_fields = model.num_fields() > 0;
    encoder_.emplace(plan_, io::Labels::kOptional, has_fields);
    candidate_encoder_.emplace(plan_, has_fields);
  }
  encoder_->LimitKeys(max_keys);
  candidate_encoder_->LimitKeys(max_keys);
  DropRows();
  ignored_ = 0;
  return {};
}

uint32_t RowEncoder::ColumnOf(const millrace_field& field, size_t position) {
  const std::string_view name(field.name, field.name_size);
  if (position >= known_.size()) known_.resize(position + 1);
  KnownName& known = known_[position];
  if (known.name == name && known.column != kNoColumn) return known.column;
  const auto column = model_->ColumnOf(name);
  if (!column) return kNoColumn;
  known = {plan_->columns()[*column], *column};
  return *column;
}

Status RowEncoder::Read(std::span<const millrace_field> fields) {
  const size_t count = plan_->columns().size();
  row_.Clear(count);
  begun_.assign(count, 0);
  columns_.resize(fields.size());
  uint32_t current = kNoColumn;
  bool ordered = true;
  for (size_t i = 0; i < fields.size(); ++i) {
    const uint32_t column = columns_[i] = ColumnOf(fields[i], i);
    if (column == kNoColumn) {
      ++ignored_;
      continue;
    }
    if (!model_->IsFeature(column)) continue;
    if (column != current) {
      // The values of a column are adjacent in a row.
      ordered &= !begun_[column];
      begun_[column] = 1;
      current = column;
      row_.Begin(column);
    }
    RETURN_IF_ERROR(AddValue(fields[i], row_));
  }
  return ordered ? Status() : ReadUnordered(fields);
}

Status RowEncoder::ReadUnordered(std::span<const millrace_field> fields) {
  row_.Clear(plan_->columns().size());
  for (uint32_t column = 0; column < begun_.size(); ++column) {
    if (!begun_[column]) continue;
    row_.Begin(column);
    for (size_t i = 0; i < fields.size(); ++i) {
      if (columns_[i] == column) RETURN_IF_ERROR(AddValue(fields[i], row_));
    }
  }
  return {};
}

// Scores do not depend on label and weight: what a row has there need not be valid.
void RowEncoder::DropLabel() {
  for (size_t column = 0; column < plan_->columns().size(); ++column) {
    if (!model_->IsFeature(column)) row_.Begin(column);
  }
}

Status RowEncoder::Add(std::span<const millrace_field> fields) {
  RETURN_IF_ERROR(Read(fields));
  return encoder_->Append(row_, rows_);
}

Result<bool> RowEncoder::ReadJson(std::string_view line) {
  if (!json_) json_.emplace(plan_->columns());
  ASSIGN_OR_RETURN(const bool is_row, json_->Read(line, row_));
  if (is_row) DropLabel();
  return is_row;
}

Result<bool> RowEncoder::AddJson(std::string_view line) {
  ASSIGN_OR_RETURN(const bool is_row, ReadJson(line));
  if (is_row) RETURN_IF_ERROR(encoder_->Append(row_, rows_));
  return is_row;
}

Status RowEncoder::SetContext(std::span<const millrace_field> fields) {
  RETURN_IF_ERROR(Read(fields));
  candidate_encoder_->SetContext(row_);
  return {};
}

Status RowEncoder::SetContextJson(std::string_view object) {
  ASSIGN_OR_RETURN(const bool is_row, ReadJson(object));
  if (!is_row) return Invalid("expected a JSON object, found nothing");
  candidate_encoder_->SetContext(row_);
  return {};
}

Status RowEncoder::AddCandidate(std::span<const millrace_field> fields) {
  RETURN_IF_ERROR(Read(fields));
  return candidate_encoder_->Append(row_, candidates_);
}

Result<bool> RowEncoder::AddCandidateJson(std::string_view line) {
  ASSIGN_OR_RETURN(const bool is_row, ReadJson(line));
  if (is_row) RETURN_IF_ERROR(candidate_encoder_->Append(row_, candidates_));
  return is_row;
}

KeyRows RowEncoder::key_rows() {
  row_begin_.assign(rows_.batch.row_begin.begin(), rows_.batch.row_begin.end());
  return {.row_begin = row_begin_,
          .keys = rows_.wide_keys.data(),
          .values = rows_.batch.values.empty() ? nullptr : rows_.batch.values.data(),
          .fields = rows_.batch.fields.empty() ? nullptr : rows_.batch.fields.data()};
}

CandidateKeys RowEncoder::candidates() const {
  return {.runs = candidates_.runs,
          .run_end = candidates_.run_end,
          .keys = candidates_.keys,
          .values = candidates_.ones ? nullptr : candidates_.values.data(),
          .fields = candidates_.fields.empty() ? nullptr : candidates_.fields.data()};
}

}  // namespace millrace::score
