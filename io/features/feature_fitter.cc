// SPDX-License-Identifier: Apache-2.0
#include "io/features/feature_fitter.h"

#include <algorithm>
#include <cmath>

#include "io/base/utf8.h"
#include "io/features/field_value.h"

namespace millrace::io {
namespace {

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

bool NeedsNumbers(const FieldSpec& spec) {
  if (spec.rule == FieldRule::kNumber) return spec.scale != NumberScale::kNone && !spec.factor;
  return spec.rule == FieldRule::kBucket && spec.bucket == BucketKind::kQuantiles &&
         spec.boundaries.empty();
}

}  // namespace

FeatureFitter::FeatureFitter(const FeatureSpec& spec) : spec_(spec) {
  const std::vector<std::string> columns = spec.Columns();
  for (const FieldSpec& field : spec.fields) {
    const auto found = std::find(columns.begin(), columns.end(), field.column);
    fields_.push_back({.column = static_cast<size_t>(found - columns.begin())});
    next_rank_ += field.values.size() + (field.unseen_rank ? 1 : 0);
  }
}

void FeatureFitter::AddText(std::string_view text, Field& field) {
  text_ = text;
  ++field.counts[text_];
}

void FeatureFitter::AddNumber(const FieldSpec& spec, double number, Field& field) {
  ++field.numbers;
  const double before = number - field.mean;
  field.mean += before / static_cast<double>(field.numbers);
  field.squares += before * (number - field.mean);
  field.max_abs = std::max(field.max_abs, std::abs(number));
  if (spec.rule != FieldRule::kBucket) return;
  if (field.sample.size() < kSample) {
    field.sample.push_back(number);
  } else if (const uint64_t at = random_.Below(field.numbers); at < kSample) {
    field.sample[at] = number;
  }
}

Status FeatureFitter::AddValue(const FieldSpec& spec, const FieldValue& value, Field& field) {
  if (spec.rule == FieldRule::kVocabulary) {
    ValueText room;
    AddText(TextOf(value, room), field);
    return {};
  }
  const std::optional<double> number = NumberOf(value);
  if (!number) {
    return Corrupt("column '" + spec.column + "': expected a finite number, found " +
                   DescribeValue(value));
  }
  AddNumber(spec, *number, field);
  return {};
}

Status FeatureFitter::Add(const FieldRow& row) {
  for (size_t i = 0; i < fields_.size(); ++i) {
    const FieldSpec& spec = spec_.fields[i];
    if (spec.rule != FieldRule::kVocabulary && !NeedsNumbers(spec)) continue;
    Field& field = fields_[i];
    const auto values = row.column(field.column);
    if (values.empty() && spec.missing_key && spec.rule == FieldRule::kVocabulary) {
      AddText("", field);
    }
    for (const FieldValue& value : values) {
      if (spec.separator.empty() || value.kind != FieldValue::Kind::kText) {
        RETURN_IF_ERROR(AddValue(spec, value, field));
        continue;
      }
      RETURN_IF_ERROR(ForEachPart(value, spec.separator, [&](const FieldValue& part) {
        return AddValue(spec, part, field);
      }));
    }
  }
  return {};
}

void FeatureFitter::FinishQuantiles(FieldSpec& spec, Field& field) {
  std::sort(field.sample.begin(), field.sample.end());
  for (uint64_t i = 1; i < spec.parts && !field.sample.empty(); ++i) {
    const double boundary = field.sample[i * field.sample.size() / spec.parts];
    const bool is_new = spec.boundaries.empty() || boundary > spec.boundaries.back();
    if (is_new && boundary > field.sample.front()) spec.boundaries.push_back(boundary);
  }
  // A constant column has one boundary, so that it is fitted: its value against all below.
  if (spec.boundaries.empty()) {
    spec.boundaries.push_back(field.sample.empty() ? 0 : field.sample.front());
  }
}

void FeatureFitter::FinishScale(FieldSpec& spec, const Field& field) {
  const double count = static_cast<double>(std::max<uint64_t>(1, field.numbers));
  const double deviation = std::sqrt(field.squares / count);
  const double size = spec.scale == NumberScale::kStandard ? deviation : field.max_abs;
  spec.center = spec.scale == NumberScale::kStandard ? field.mean : 0;
  spec.factor = size > 0 ? 1 / size : 1;
}

void FeatureFitter::FinishVocabulary(FieldSpec& spec, const Field& field) {
  if (!spec.unseen_rank) spec.unseen_rank = next_rank_++;
  std::vector<std::string_view> added;
  for (const auto& [value, count] : field.counts) {
    if (count >= spec.min_count && !spec.values.contains(value) && IsUtf8(value)) {
      added.push_back(value);
    }
  }
  std::sort(added.begin(), added.end());
  for (const std::string_view value : added) spec.values.emplace(std::string(value), next_rank_++);
}

Result<FeatureSpec> FeatureFitter::Finish() {
  for (size_t i = 0; i < fields_.size(); ++i) {
    FieldSpec& spec = spec_.fields[i];
    if (spec.rule == FieldRule::kVocabulary) {
      FinishVocabulary(spec, fields_[i]);
      fields_[i].counts.clear();  // as much memory as the values themselves
    } else if (NeedsNumbers(spec) && spec.rule == FieldRule::kBucket) {
      FinishQuantiles(spec, fields_[i]);
    } else if (NeedsNumbers(spec)) {
      FinishScale(spec, fields_[i]);
    }
  }
  RETURN_IF_ERROR(spec_.Validate());
  return std::move(spec_);
}

}  // namespace millrace::io
