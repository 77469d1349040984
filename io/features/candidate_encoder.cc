// SPDX-License-Identifier: Apache-2.0
#include "io/features/candidate_encoder.h"

#include <algorithm>
#include <cmath>

namespace millrace::io {
namespace {

Status CheckProducts(const float* begin, const float* end) {
  if (std::all_of(begin, end, [](float v) { return std::isfinite(v); })) return {};
  return Corrupt("cross: expected a product of numbers that fits a float");
}

}  // namespace

CandidateEncoder::CandidateEncoder(std::shared_ptr<const EncoderPlan> plan, bool fields)
    : plan_(std::move(plan)),
      encoder_(plan_, Labels::kOptional, fields),
      tokens_(plan_->fields_.size()),
      columns_(plan_->columns().size()) {}

void CandidateEncoder::SetContext(const FieldRow& context) {
  const std::vector<EncoderPlan::Field>& fields = plan_->fields_;
  errors_.clear();
  begin_.clear();
  has_columns_ = false;
  encoder_.BeginKeys();
  const auto note = [&](size_t i, const Status& status) {
    if (status.ok()) return;
    encoder_.tokens_[i].clear();
    errors_.emplace_back(i, status);
  };
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].in_cross) note(i, encoder_.EncodeField(i, context));
  }
  for (size_t i = 0; i < fields.size(); ++i) {
    const size_t before = encoder_.keys_.size();
    begin_.push_back(static_cast<uint32_t>(before));
    note(i, encoder_.EncodeKeys(i, context));
    encoder_.NameFields(i);
    note(i, CheckProducts(encoder_.values_.data() + before,
                          encoder_.values_.data() + encoder_.values_.size()));
    if (fields[i].in_cross) tokens_[i] = encoder_.tokens_[i];
  }
  begin_.push_back(static_cast<uint32_t>(encoder_.keys_.size()));
  context_keys_ = encoder_.keys_;
  context_values_ = encoder_.values_;
  context_fields_ = encoder_.fields_;
  context_ones_ = encoder_.ones_;
}

bool CandidateEncoder::DependsOnCandidate(size_t field) const {
  const EncoderPlan::Field& plan = plan_->fields_[field];
  if (plan.rule != FieldRule::kCross) return columns_[plan.column] != 0;
  return std::any_of(plan.parts.begin(), plan.parts.end(),
                     [&](size_t part) { return columns_[plan_->fields_[part].column] != 0; });
}

Status CandidateEncoder::UseColumnsOf(const FieldRow& candidate) {
  bool same = has_columns_;
  for (size_t c = 0; c < columns_.size(); ++c) {
    const uint8_t has = !candidate.column(c).empty();
    same &= columns_[c] == has;
    columns_[c] = has;
  }
  if (same) return {};
  has_columns_ = false;  // until it is known that the context has no error
  steps_.clear();
  crossed_.clear();
  const std::vector<EncoderPlan::Field>& fields = plan_->fields_;
  uint32_t first = 0;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (!DependsOnCandidate(i)) {
      if (fields[i].in_cross) encoder_.tokens_[i] = tokens_[i];
      continue;
    }
    if (fields[i].in_cross) crossed_.push_back(i);
    steps_.push_back({first, begin_[i] - first, i});
    first = begin_[i + 1];
  }
  steps_.push_back({first, begin_.back() - first, kNoField});
  for (const auto& [field, status] : errors_) {
    if (!DependsOnCandidate(field)) return status;
  }
  has_columns_ = true;
  return {};
}

Status CandidateEncoder::AppendKeys(const FieldRow& candidate, CandidateRows& rows) {
  encoder_.BeginKeys();
  for (const size_t field : crossed_) RETURN_IF_ERROR(encoder_.EncodeField(field, candidate));
  const size_t before = rows.runs.size();
  for (const Step& step : steps_) {
    if (step.shared > 0 || rows.runs.size() == before) {
      rows.runs.push_back({step.first, step.shared, 0});
    }
    if (step.field == kNoField) break;
    const size_t keys = encoder_.keys_.size();
    RETURN_IF_ERROR(encoder_.EncodeKeys(step.field, candidate));
    encoder_.NameFields(step.field);
    rows.runs.back().own += static_cast<uint32_t>(encoder_.keys_.size() - keys);
  }
  const float* const values = encoder_.values_.data();
  return encoder_.ones_ ? Status() : CheckProducts(values, values + encoder_.values_.size());
}

Status CandidateEncoder::Append(const FieldRow& candidate, CandidateRows& rows) {
  RETURN_IF_ERROR(UseColumnsOf(candidate));
  const size_t runs = rows.runs.size();
  if (Status status = AppendKeys(candidate, rows); !status.ok()) {
    rows.runs.resize(runs);
    return status;
  }
  rows.ones &= encoder_.ones_;
  rows.run_end.push_back(static_cast<uint32_t>(rows.runs.size()));
  rows.keys.insert(rows.keys.end(), encoder_.keys_.begin(), encoder_.keys_.end());
  rows.values.insert(rows.values.end(), encoder_.values_.begin(), encoder_.values_.end());
  rows.fields.insert(rows.fields.end(), encoder_.fields_.begin(), encoder_.fields_.end());
  return {};
}

}  // namespace millrace::io
