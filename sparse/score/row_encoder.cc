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

// Adds the values of a column of another row, which must outlive the texts' use.
void CopyColumn(const io::FieldRow& from, size_t column, io::FieldRow& row) {
  const std::span<const io::FieldValue> values = from.column(column);
  if (values.empty()) return;
  row.Begin(column);
  for (const io::FieldValue& value : values) {
    switch (value.kind) {
      case io::FieldValue::Kind::kText:
        row.AddText(value.AsText(), value.weight);
        break;
      case io::FieldValue::Kind::kInt:
        row.AddInt(value.integer);
        break;
      case io::FieldValue::Kind::kFloat:
        row.AddFloat(static_cast<float>(value.number));
        break;
      case io::FieldValue::Kind::kDouble:
        row.AddDouble(value.number);
        break;
    }
  }
}

}  // namespace

void RowEncoder::UseModel(const ServingModel& model) {
  if (plan_ == model.features()) return;
  plan_.reset();
  encoder_.reset();
  json_.reset();
  context_json_.reset();
  known_.clear();
}

Status RowEncoder::Begin(const ServingModel& model) {
  model_ = &model;
  if (!model.features()) {
    return Invalid(model.path() +
                   ": rows of named fields need a model with a feature spec; this one scores keys");
  }
  if (!encoder_) {
    plan_ = model.features();
    encoder_.emplace(plan_, io::Labels::kOptional, model.num_fields() > 0);
  }
  DropRows();
  ignored_ = 0;
  work_ = 0;
  return {};
}

Status RowEncoder::Append(const io::FieldRow& row) {
  const size_t before = rows_.nnz();
  RETURN_IF_ERROR(encoder_->Append(row, rows_));
  work_ += rows_.nnz() - before;
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

Status RowEncoder::Read(std::span<const millrace_field> fields, io::FieldRow& row) {
  const size_t count = plan_->columns().size();
  row.Clear(count);
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
    if (column != current) {
      // The values of a column are adjacent in a row.
      ordered &= !begun_[column];
      begun_[column] = 1;
      current = column;
      row.Begin(column);
    }
    RETURN_IF_ERROR(AddValue(fields[i], row));
  }
  return ordered ? Status() : ReadUnordered(fields, row);
}

Status RowEncoder::ReadUnordered(std::span<const millrace_field> fields, io::FieldRow& row) {
  row.Clear(plan_->columns().size());
  for (uint32_t column = 0; column < begun_.size(); ++column) {
    if (!begun_[column]) continue;
    row.Begin(column);
    for (size_t i = 0; i < fields.size(); ++i) {
      if (columns_[i] == column) RETURN_IF_ERROR(AddValue(fields[i], row));
    }
  }
  return {};
}

// Scores do not depend on label and weight: what a row has there need not be valid.
void RowEncoder::DropLabel(io::FieldRow& row) const {
  for (size_t column = 0; column < plan_->columns().size(); ++column) {
    if (!model_->ColumnOf(plan_->columns()[column])) row.Begin(column);
  }
}

Status RowEncoder::Add(std::span<const millrace_field> fields) {
  RETURN_IF_ERROR(Read(fields, row_));
  return Append(row_);
}

Result<bool> RowEncoder::ReadJson(std::string_view line, io::FieldRow& row) {
  std::optional<io::JsonColumns>& json = &row == &context_ ? context_json_ : json_;
  if (!json) json.emplace(plan_->columns());
  ASSIGN_OR_RETURN(const bool is_row, json->Read(line, row));
  if (is_row) DropLabel(row);
  return is_row;
}

Result<bool> RowEncoder::AddJson(std::string_view line) {
  ASSIGN_OR_RETURN(const bool is_row, ReadJson(line, row_));
  if (is_row) RETURN_IF_ERROR(Append(row_));
  return is_row;
}

Status RowEncoder::SetContext(std::span<const millrace_field> fields) {
  return Read(fields, context_);
}

Status RowEncoder::SetContextJson(std::string_view object) {
  ASSIGN_OR_RETURN(const bool is_row, ReadJson(object, context_));
  return is_row ? Status() : Invalid("expected a JSON object, found nothing");
}

Status RowEncoder::AddCandidate(std::span<const millrace_field> fields) {
  RETURN_IF_ERROR(Read(fields, row_));
  return AppendJoined();
}

Result<bool> RowEncoder::AddCandidateJson(std::string_view line) {
  ASSIGN_OR_RETURN(const bool is_row, ReadJson(line, row_));
  if (is_row) RETURN_IF_ERROR(AppendJoined());
  return is_row;
}

Status RowEncoder::AppendJoined() {
  const size_t count = plan_->columns().size();
  joined_.Clear(count);
  for (size_t column = 0; column < count; ++column) {
    const bool from_context = row_.column(column).empty();
    if (from_context) work_ += context_.column(column).size();
    CopyColumn(from_context ? context_ : row_, column, joined_);
  }
  return Append(joined_);
}

KeyRows RowEncoder::key_rows() {
  row_begin_.assign(rows_.batch.row_begin.begin(), rows_.batch.row_begin.end());
  return {.row_begin = row_begin_,
          .keys = rows_.wide_keys.data(),
          .values = rows_.batch.values.empty() ? nullptr : rows_.batch.values.data(),
          .fields = rows_.batch.fields.empty() ? nullptr : rows_.batch.fields.data()};
}

}  // namespace millrace::score
