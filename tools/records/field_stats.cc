// SPDX-License-Identifier: Apache-2.0
#include "tools/records/field_stats.h"

#include <cmath>
#include <cstdio>

#include "io/base/json.h"
#include "tools/common/progress.h"
#include "tools/common/text_table.h"

namespace millrace::records {
namespace {

double Ratio(uint64_t part, uint64_t whole) {
  return whole == 0 ? NAN : static_cast<double>(part) / static_cast<double>(whole);
}

std::string Percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f %%", 100 * share);
  return std::isnan(share) ? "-" : text;
}

}  // namespace

FieldStats::FieldStats(const std::shared_ptr<const io::EncoderPlan>& plan)
    : plan_(plan),
      encoder_(plan, io::Labels::kOptional),
      fields_(plan->spec().fields.size()),
      last_row_(fields_.size(), UINT64_MAX) {}

Status FieldStats::Add(const io::FieldRow& row) {
  float label = 0;
  RETURN_IF_ERROR(encoder_.ReadLabel(row, label));
  ASSIGN_OR_RETURN(const std::vector<io::FeatureEncoder::Entry> entries, encoder_.Explain(row));
  const bool is_labeled = !std::isnan(label);
  for (const io::FeatureEncoder::Entry& entry : entries) {
    Field& field = fields_[entry.field];
    ++field.keys;
    field.distinct.Add(entry.key);
    if (last_row_[entry.field] == rows_) continue;
    last_row_[entry.field] = rows_;
    ++field.rows;
    field.labeled += is_labeled;
    field.positives += is_labeled && label > 0;
  }
  ++rows_;
  labeled_ += is_labeled;
  positives_ += is_labeled && label > 0;
  return {};
}

std::string FieldStats::Text() const {
  tools::TextTable table({{"field"},
                          {"rule"},
                          {"keys per row", true},
                          {"distinct", true},
                          {"coverage", true},
                          {"label rate", true}});
  for (size_t i = 0; i < fields_.size(); ++i) {
    const Field& field = fields_[i];
    const io::FieldSpec& spec = plan_->spec().fields[i];
    char per_row[32];
    std::snprintf(per_row, sizeof per_row, "%.2f", Ratio(field.keys, rows_));
    table.Add({spec.name, io::RuleName(spec.rule), per_row,
               tools::WithCommas(field.distinct.Estimate()), Percent(Ratio(field.rows, rows_)),
               Percent(Ratio(field.positives, field.labeled))});
  }
  return tools::Counted(rows_, "row") + ", label rate " + Percent(Ratio(positives_, labeled_)) +
         "\n\n" + table.Text();
}

std::string FieldStats::Json() const {
  std::string text;
  JsonWriter json(text);
  const auto uint = [&](const char* key, uint64_t value) {
    json.Key(key);
    json.Uint(value);
  };
  json.BeginObject();
  uint("rows", rows_);
  uint("labeled", labeled_);
  uint("positives", positives_);
  json.Key("fields");
  json.BeginArray();
  for (size_t i = 0; i < fields_.size(); ++i) {
    const Field& field = fields_[i];
    json.BeginObject();
    json.Key("name");
    json.String(plan_->spec().fields[i].name);
    json.Key("rule");
    json.String(io::RuleName(plan_->spec().fields[i].rule));
    uint("keys", field.keys);
    uint("distinct", field.distinct.Estimate());
    uint("rows", field.rows);
    uint("labeled", field.labeled);
    uint("positives", field.positives);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  return text + "\n";
}

}  // namespace millrace::records
