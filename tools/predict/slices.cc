// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <memory>
#include <unordered_map>
#include <utility>

#include "io/batch/key_compactor.h"
#include "io/rows/column_reader.h"
#include "tools/common/read_rows.h"
#include "tools/predict/commands.h"

namespace millrace::predict {
namespace {

constexpr size_t kBatchRows = 1000;
constexpr size_t kMaxValues = 10000;  // of a field that are told apart

struct Slice {
  uint64_t rows = 0, positives = 0;
  trainer::BinaryMetricsSum sum;

  void Add(float margin, float label, float weight) {
    ++rows;
    positives += label > 0;
    sum.Add({&margin, 1}, {&label, 1}, {&weight, 1});
  }
  void Add(const Slice& other) {
    rows += other.rows;
    positives += other.positives;
    sum.Add(other.sum);
  }
};

// The slices of one field. Pointers to them stay valid.
class FieldSlices {
 public:
  FieldSlices(size_t field, std::string name) : field_(field), name_(std::move(name)) {}

  size_t field() const { return field_; }

  Slice& SliceOf(const std::string& value) {
    const auto found = slices_.find(value);
    if (found != slices_.end()) return found->second;
    return slices_.size() < kMaxValues ? slices_[value] : others_;
  }
  Slice& MissingSlice() { return SliceOf(name_ + "=missing"); }

  // The `count` slices with the most rows, then all others as one.
  void Report(size_t count, std::vector<SliceMetrics>& out) {
    std::vector<std::pair<const std::string*, Slice*>> order;
    for (auto& [name, slice] : slices_) order.emplace_back(&name, &slice);
    std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
      return a.second->rows != b.second->rows ? a.second->rows > b.second->rows
                                              : *a.first < *b.first;
    });
    const bool has_all = others_.rows == 0;
    for (size_t i = 0; i < order.size(); ++i) {
      if (i < count) {
        AddTo(out, *order[i].first, *order[i].second);
      } else {
        others_.Add(*order[i].second);
      }
    }
    if (others_.rows == 0) return;
    const size_t merged = order.size() - std::min(count, order.size());
    AddTo(out,
          name_ + ": " + (has_all ? "" : "more than ") + std::to_string(merged) + " other values",
          others_);
  }

 private:
  static void AddTo(std::vector<SliceMetrics>& out, const std::string& name, Slice& slice) {
    out.push_back({name, slice.rows, slice.positives, slice.sum.Compute()});
  }

  size_t field_;
  std::string name_;
  std::unordered_map<std::string, Slice> slices_;  // by "field=value"
  Slice others_;
};

Result<std::vector<FieldSlices>> FindFields(const io::FeatureSpec& spec,
                                            const std::vector<std::string>& names) {
  std::vector<FieldSlices> fields;
  for (const std::string& name : names) {
    size_t i = 0;
    while (i < spec.fields.size() && spec.fields[i].name != name) ++i;
    if (i == spec.fields.size()) {
      return Invalid("--slices: there is no field '" + name + "' in the feature spec of the model");
    }
    const io::FieldRule rule = spec.fields[i].rule;
    if (rule == io::FieldRule::kCross || rule == io::FieldRule::kNumber) {
      return Invalid("--slices: field '" + name + "' is a " + io::RuleName(rule) +
                     ": expected a field of values (hash, vocabulary, bucket)");
    }
    for (const FieldSlices& other : fields) {
      if (other.field() == i) return Invalid("--slices: field '" + name + "' is named twice");
    }
    fields.emplace_back(i, name);
  }
  return fields;
}

class SliceScorer {
 public:
  SliceScorer(const trainer::Model& model, const ScoreOptions& options,
              std::vector<FieldSlices> fields, trainer::OutputBuffer& out)
      : model_(model),
        options_(options),
        fields_(std::move(fields)),
        out_(out),
        decoder_(io::MakeRowDecoder(options.input.format, options.input.rows)),
        columns_(io::MakeColumnReader(
            options.input.format,
            {.columns = options.input.rows.features->columns(), .csv = options.input.rows.csv})),
        encoder_(options.input.rows.features, io::Labels::kOptional),
        wide_(io::NeedsWideKeys(model.info().num_features)),
        compactor_(wide_ ? std::make_unique<io::KeyCompactor>(model.info().num_features)
                         : nullptr) {
    rows_.Clear(wide_);
  }

  Status Add(std::string_view record) {
    const size_t row = rows_.batch.rows();
    RETURN_IF_ERROR(decoder_->Append(record, rows_));
    if (rows_.batch.rows() == row) return {};
    if (std::isnan(rows_.batch.labels[row])) {
      rows_.DropRow();
      return Corrupt("label: expected one, found none: --metrics needs labels in all rows");
    }
    RETURN_IF_ERROR(columns_->Read(record, fields_row_).status());
    for (FieldSlices& field : fields_) {
      ASSIGN_OR_RETURN(std::vector<std::string> names,
                       encoder_.ValueNames(fields_row_, field.field()));
      std::sort(names.begin(), names.end());
      names.erase(std::unique(names.begin(), names.end()), names.end());
      for (const std::string& name : names) pending_.emplace_back(row, &field.SliceOf(name));
      if (names.empty()) pending_.emplace_back(row, &field.MissingSlice());
    }
    return rows_.batch.rows() == kBatchRows ? Flush() : Status();
  }

  Status Flush() {
    io::CsrBatch& batch = rows_.batch;
    rows_.Trim();
    if (compactor_) {
      batch.compacted = true;
      compactor_->Compact(rows_.wide_keys, batch.cols, batch.keys);
    }
    margins_.resize(batch.rows());
    RETURN_IF_ERROR(model_.Margins(batch, scratch_, margins_));
    for (const float margin : margins_) AppendScore(options_.kind, margin, '\n', out_);
    all_.Add(margins_, batch.labels, batch.weights);
    for (const auto& [row, slice] : pending_) {
      slice->Add(margins_[row], batch.labels[row], batch.weights.empty() ? 1 : batch.weights[row]);
    }
    count_ += batch.rows();
    pending_.clear();
    rows_.Clear(wide_);
    return {};
  }

  SliceSummary Finish() {
    SliceSummary summary = {.rows = count_, .metrics = all_.Compute()};
    for (FieldSlices& field : fields_) field.Report(options_.slice_values, summary.slices);
    return summary;
  }

 private:
  const trainer::Model& model_;
  const ScoreOptions& options_;
  std::vector<FieldSlices> fields_;
  trainer::OutputBuffer& out_;
  std::unique_ptr<io::RowDecoder> decoder_;
  std::unique_ptr<io::ColumnReader> columns_;
  io::FeatureEncoder encoder_;
  bool wide_;
  std::unique_ptr<io::KeyCompactor> compactor_;
  io::BatchBuilder rows_;
  io::FieldRow fields_row_;
  std::vector<std::pair<size_t, Slice*>> pending_;  // of rows_
  PodVector<float> scratch_, margins_;
  trainer::BinaryMetricsSum all_;
  uint64_t count_ = 0;
};

}  // namespace

Result<SliceSummary> ScoreSlices(const trainer::Model& model, const ScoreOptions& options) {
  CHECK(options.input.rows.features);
  ASSIGN_OR_RETURN(std::vector<FieldSlices> fields,
                   FindFields(options.input.rows.features->spec(), options.slices));
  RETURN_IF_ERROR(io::CheckNames(options.input));
  ASSIGN_OR_RETURN(io::OutputFile file, io::OutputFile::Create(options.out));
  trainer::OutputBuffer out(std::move(file));
  SliceScorer scorer(model, options, std::move(fields), out);
  tools::SkippedRows skipped;
  RETURN_IF_ERROR(tools::ReadRows(
      {.work = "scoring", .input = options.input},
      [&](std::string_view record) { return scorer.Add(record); }, skipped));
  RETURN_IF_ERROR(scorer.Flush());
  tools::PrintSkipped("millrace-predict", skipped);
  RETURN_IF_ERROR(out.Finish());
  return scorer.Finish();
}

}  // namespace millrace::predict
