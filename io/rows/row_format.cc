// SPDX-License-Identifier: Apache-2.0
#include "io/rows/row_format.h"

#include <string>

namespace millrace::io {
namespace {

bool Hashes(InputFormat format) {
  return format == InputFormat::kVw || format == InputFormat::kCriteo;
}

bool HasIndexBase(InputFormat format) {
  return format == InputFormat::kLibsvm || format == InputFormat::kLibffm;
}

Result<int> Number(const StateFields& fields, const char* name, uint64_t max) {
  ASSIGN_OR_RETURN(const uint64_t number, fields.Uint(name));
  if (number <= max) return static_cast<int>(number);
  return Corrupt("header field " + std::string(name) + ": expected at most " + std::to_string(max) +
                 ", found " + std::to_string(number));
}

}  // namespace

void AddRowFormat(const RowFormat& rows, StateFields& fields) {
  fields.Add("input.format", InputFormatName(rows.format));
  if (rows.rows.num_fields > 0) fields.AddUint("input.num_fields", rows.rows.num_fields);
  if (rows.rows.features) {
    fields.Add("input.features", rows.rows.features->spec().ToJson());
    return;
  }
  if (rows.rows.positive_label) fields.AddDouble("input.positive_label", *rows.rows.positive_label);
  if (Hashes(rows.format)) {
    fields.AddUint("input.hash_bits", static_cast<uint64_t>(rows.rows.hash_bits));
  }
  if (rows.format == InputFormat::kVw) fields.AddUint("input.hash_all", rows.rows.hash_all ? 1 : 0);
  if (HasIndexBase(rows.format)) {
    fields.AddUint("input.index_base", static_cast<uint64_t>(rows.rows.index_base));
  }
  if (rows.format != InputFormat::kTfRecord) return;
  const FeatureNames& names = rows.rows.names;
  fields.Add("input.label_feature", names.label);
  fields.Add("input.index_feature", names.index);
  fields.Add("input.value_feature", names.value);
  if (!names.weight.empty()) fields.Add("input.weight_feature", names.weight);
  if (rows.rows.num_fields > 0) fields.Add("input.field_feature", names.field);
}

Result<std::optional<RowFormat>> RowFormatFrom(const StateFields& fields) {
  const Result<std::string> name = fields.Text("input.format");
  if (!name.ok()) return std::optional<RowFormat>();
  RowFormat rows;
  const Result<InputFormat> format = InputFormatFromName(*name);
  if (!format.ok()) return Corrupt("header field input." + format.status().message());
  rows.format = *format;
  if (fields.Text("input.num_fields").ok()) {
    ASSIGN_OR_RETURN(const int num_fields, Number(fields, "input.num_fields", kMaxFields));
    rows.rows.num_fields = static_cast<size_t>(num_fields);
  }
  if (const Result<std::string> json = fields.Text("input.features"); json.ok()) {
    const Result<FeatureSpec> spec = ParseFeatureSpec(*json, "header field input.features");
    if (!spec.ok()) return Corrupt(spec.status().message());
    if (!spec->IsFitted()) return Corrupt("header field input.features: expected a fitted spec");
    ASSIGN_OR_RETURN(rows.rows.features, EncoderPlan::Make(*spec));
    return std::optional(std::move(rows));
  }
  if (Hashes(rows.format)) {
    ASSIGN_OR_RETURN(rows.rows.hash_bits, Number(fields, "input.hash_bits", 64));
  }
  if (rows.format == InputFormat::kVw) {
    ASSIGN_OR_RETURN(const int hash_all, Number(fields, "input.hash_all", 1));
    rows.rows.hash_all = hash_all == 1;
  }
  if (HasIndexBase(rows.format)) {
    ASSIGN_OR_RETURN(rows.rows.index_base, Number(fields, "input.index_base", 1));
  }
  for (const auto& [field, value] : fields.all()) {
    if (field != "input.positive_label") continue;
    ASSIGN_OR_RETURN(const double label, fields.Double(field));
    rows.rows.positive_label = static_cast<float>(label);
  }
  if (rows.format == InputFormat::kTfRecord) {
    FeatureNames& names = rows.rows.names;
    ASSIGN_OR_RETURN(names.label, fields.Text("input.label_feature"));
    ASSIGN_OR_RETURN(names.index, fields.Text("input.index_feature"));
    ASSIGN_OR_RETURN(names.value, fields.Text("input.value_feature"));
    const Result<std::string> weight = fields.Text("input.weight_feature");
    names.weight = weight.ok() ? *weight : "";
    if (rows.rows.num_fields > 0) {
      ASSIGN_OR_RETURN(names.field, fields.Text("input.field_feature"));
    }
  }
  return std::optional(std::move(rows));
}

}  // namespace millrace::io
