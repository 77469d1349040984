// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <unordered_map>

#include "io/rows/column_reader.h"
#include "io/state/state_fields.h"
#include "tools/common/read_rows.h"
#include "tools/predict/commands.h"
#include "trainer/model/output_buffer.h"

namespace millrace::predict {
namespace {

// The names of the keys of a row, through the feature spec; none without a spec.
class RowNames {
 public:
  explicit RowNames(const io::InputOptions& input) {
    const auto& features = input.rows.features;
    if (!features) return;
    columns_ = io::MakeColumnReader(
        input.format,
        {.columns = features->columns(), .csv = input.rows.csv, .table = input.rows.table});
    encoder_ = std::make_unique<io::FeatureEncoder>(features, io::Labels::kOptional);
  }

  // Calls visit(key, name).
  template <typename Visit>
  Status ForEach(std::string_view record, const Visit& visit) {
    if (!encoder_) return {};
    ASSIGN_OR_RETURN(const bool is_row, columns_->Read(record, row_));
    if (!is_row) return {};
    ASSIGN_OR_RETURN(const std::vector<io::FeatureEncoder::Entry> entries, encoder_->Explain(row_));
    for (const io::FeatureEncoder::Entry& entry : entries) visit(entry.key, entry.name);
    return {};
  }

 private:
  std::unique_ptr<io::ColumnReader> columns_;
  std::unique_ptr<io::FeatureEncoder> encoder_;
  io::FieldRow row_;
};

// In place of the partner of a single feature: no feature has this key.
constexpr uint64_t kNoPartner = io::kInterceptKey;

class Explainer {
 public:
  Explainer(const trainer::Model& model, const ExplainOptions& options, trainer::OutputBuffer& out)
      : model_(model),
        options_(options),
        names_(options.input),
        decoder_(io::MakeRowDecoder(options.input.format, options.input.rows)),
        out_(out) {}

  Status Add(std::string_view record) {
    rows_.Clear(/*wide_rows=*/true);
    RETURN_IF_ERROR(decoder_->Append(record, rows_));
    if (rows_.batch.rows() == 0) return {};
    parts_.clear();
    double margin = double{model_.Weight(io::kInterceptKey)};
    for (size_t i = 0; i < rows_.nnz(); ++i) {
      const double part = double{model_.Weight(rows_.wide_keys[i])} * ValueOf(i);
      margin += part;
      parts_.push_back({rows_.wide_keys[i], kNoPartner, part});
    }
    if (model_.factor_width() > 0) margin += AddPairs();
    KeepLargest();
    AppendScore(options_.kind, static_cast<float>(margin), parts_.empty() ? '\n' : '\t', out_);
    return parts_.empty() ? Status() : Write(record);
  }

 private:
  struct Part {
    uint64_t key = 0;
    uint64_t partner = kNoPartner;  // the other feature of an interaction
    double part = 0;                // of the margin
  };

  // The interactions of the row's features, and their sum.
  double AddPairs() {
    double sum = 0;
    for (size_t i = 0; i < rows_.nnz(); ++i) {
      const std::span<const float> a = model_.Factors(rows_.wide_keys[i]);
      if (a.empty()) continue;
      for (size_t j = i + 1; j < rows_.nnz(); ++j) {
        const std::span<const float> b = model_.Factors(rows_.wide_keys[j]);
        if (b.empty()) continue;
        const double part = ValueOf(i) * ValueOf(j) * Product(a, FieldOf(j), b, FieldOf(i));
        sum += part;
        parts_.push_back({rows_.wide_keys[i], rows_.wide_keys[j], part});
      }
    }
    return sum;
  }

  // Those of a for the field of b, times those of b for the field of a.
  double Product(std::span<const float> a, size_t field_of_b, std::span<const float> b,
                 size_t field_of_a) const {
    const size_t k = model_.info().factors.factors;
    const auto of_a = a.subspan(field_of_b * k, k), of_b = b.subspan(field_of_a * k, k);
    return std::inner_product(of_a.begin(), of_a.end(), of_b.begin(), 0.0);
  }
  // 0 unless the model is an ffm.
  size_t FieldOf(size_t i) const { return rows_.batch.fields.empty() ? 0 : rows_.batch.fields[i]; }
  double ValueOf(size_t i) const {
    return rows_.batch.values.empty() ? 1.0 : double{rows_.batch.values[i]};
  }

  void KeepLargest() {
    const auto is_larger = [](const Part& a, const Part& b) {
      return std::abs(a.part) > std::abs(b.part);
    };
    std::stable_sort(parts_.begin(), parts_.end(), is_larger);
    if (parts_.size() > options_.count) parts_.resize(options_.count);
    while (!parts_.empty() && parts_.back().part == 0) parts_.pop_back();
  }

  Status Write(std::string_view record) {
    std::unordered_map<uint64_t, std::string> names;
    RETURN_IF_ERROR(names_.ForEach(
        record, [&](uint64_t key, const std::string& name) { names.emplace(key, name); }));
    const auto name_of = [&](uint64_t key) {
      const auto name = names.find(key);
      return name == names.end() ? io::KeyName(key) : name->second;
    };
    for (size_t i = 0; i < parts_.size(); ++i) {
      const Part& part = parts_[i];
      const std::string pair = part.partner == kNoPartner ? "" : " * " + name_of(part.partner);
      char number[32];
      const char* const end =
          std::to_chars(number, number + sizeof number, part.part, std::chars_format::general, 4)
              .ptr;
      out_.Append(name_of(part.key) + pair + (part.part > 0 ? " +" : " ") +
                  std::string(std::string_view(number, static_cast<size_t>(end - number))) +
                  (i + 1 < parts_.size() ? "\t" : "\n"));
    }
    return {};
  }

  const trainer::Model& model_;
  const ExplainOptions& options_;
  RowNames names_;
  std::unique_ptr<io::RowDecoder> decoder_;
  trainer::OutputBuffer& out_;
  io::BatchBuilder rows_;
  std::vector<Part> parts_;
};

}  // namespace

Status WriteExplanations(const trainer::Model& model, const ExplainOptions& options) {
  ASSIGN_OR_RETURN(io::OutputFile file, io::OutputFile::Create(options.out));
  trainer::OutputBuffer out(std::move(file));
  Explainer explainer(model, options, out);
  tools::SkippedRows skipped;
  RETURN_IF_ERROR(tools::ReadRows(
      {.work = "explaining", .input = options.input},
      [&](std::string_view record) { return explainer.Add(record); }, skipped));
  tools::PrintSkipped("millrace-predict", skipped);
  return out.Finish();
}

Status FillNames(const io::InputOptions& input, KeyNames& names) {
  RowNames row_names(input);
  tools::SkippedRows skipped;
  const auto add = [&](std::string_view record) {
    return row_names.ForEach(record, [&](uint64_t key, const std::string& name) {
      const auto found = names.find(key);
      if (found == names.end()) return;
      std::vector<std::string>& known = found->second;
      if (known.size() < kMaxNames && std::find(known.begin(), known.end(), name) == known.end()) {
        known.push_back(name);
      }
    });
  };
  RETURN_IF_ERROR(tools::ReadRows({.work = "collecting names", .input = input}, add, skipped));
  tools::PrintSkipped("millrace-predict", skipped);
  return {};
}

}  // namespace millrace::predict
