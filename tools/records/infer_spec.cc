// SPDX-License-Identifier: Apache-2.0
#include "tools/records/infer_spec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "io/base/printable.h"
#include "io/base/string_hash.h"
#include "io/features/field_value.h"

namespace millrace::records {
namespace {

using io::FieldRule;
using io::FieldSpec;

constexpr uint64_t kMaxBuckets = 32;
constexpr uint64_t kFewNumbers = 20;         // integers of so few values are categories
constexpr double kMissingShare = 0.01;       // a missing value then has a key
constexpr double kDistinctShare = 0.9;       // texts with a larger share identify rows
constexpr uint64_t kMinValuesToTell = 1000;  // for that
constexpr uint64_t kKeysPerValue = 16;       // few values then share a key

constexpr std::array<std::string_view, 14> kLabelNames = {
    "label",   "target",     "click",     "clicked",   "is_click", "is_clicked", "y",
    "outcome", "conversion", "converted", "purchased", "response", "class",      "churn"};
constexpr std::array<std::string_view, 4> kWeightNames = {"weight", "sample_weight",
                                                          "example_weight", "importance"};
constexpr std::array<std::string_view, 9> kPositiveTexts = {
    "1", "true", "yes", "y", "t", "positive", "click", "clicked", "+"};

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return lower;
}

template <size_t n>
bool Contains(const std::array<std::string_view, n>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), Lower(name)) != names.end();
}

bool IsTwoValued(const ColumnSummary& column, uint64_t rows) {
  return column.rows() == rows && column.values() == rows && column.counts().size() == 2;
}

// Two values that say yes and no.
bool IsYesNo(const ColumnSummary& column) {
  const auto is_positive = [](const auto& entry) { return Contains(kPositiveTexts, entry.first); };
  return std::count_if(column.counts().begin(), column.counts().end(), is_positive) == 1;
}

std::string NamesOf(const std::vector<const ColumnSummary*>& columns) {
  std::string names;
  for (const ColumnSummary* column : columns) {
    names += (names.empty() ? "" : ", ") + Printable(column->name());
  }
  return names;
}

std::string ColumnNames(const std::vector<ColumnSummary>& columns) {
  constexpr size_t kMost = 30;
  std::string names;
  for (size_t i = 0; i < std::min(columns.size(), kMost); ++i) {
    names += (i == 0 ? "" : ", ") + Printable(columns[i].name());
  }
  return "the columns are " + names + (columns.size() > kMost ? ", ..." : "");
}

Result<const ColumnSummary*> FindLabel(const std::vector<ColumnSummary>& columns, uint64_t rows,
                                       const std::string& label) {
  std::vector<const ColumnSummary*> two_valued, yes_no;
  for (const ColumnSummary& column : columns) {
    if (column.name() == label) return &column;
    if (!IsTwoValued(column, rows)) continue;
    two_valued.push_back(&column);
    if (IsYesNo(column)) yes_no.push_back(&column);
  }
  if (!label.empty()) {
    return Invalid("label: there is no column '" + label + "'; " + ColumnNames(columns));
  }
  for (const std::string_view name : kLabelNames) {
    for (const ColumnSummary* column : two_valued) {
      if (Lower(column->name()) == name) return column;
    }
  }
  const auto& found = yes_no.empty() ? two_valued : yes_no;
  if (found.size() == 1) return found.front();
  // Labels are often the first or the last column.
  const bool is_first = !found.empty() && found.front() == &columns.front();
  const bool is_last = !found.empty() && found.back() == &columns.back();
  if (is_first != is_last) return is_first ? found.front() : found.back();
  return Invalid(
      "label: expected one column that looks like a label (two values, in every row), "
      "found " +
      (found.empty() ? "none" : NamesOf(found)) + ": name it with --label" +
      (found.empty() ? "; " + ColumnNames(columns) : ""));
}

io::LabelSpec LabelOf(const ColumnSummary& column) {
  io::LabelSpec label = {.column = column.name()};
  const auto& counts = column.counts();
  const auto is_binary = [](const auto& entry) {
    return entry.first == "0" || entry.first == "1" || entry.first == "-1";
  };
  if (!counts.empty() && std::all_of(counts.begin(), counts.end(), is_binary)) return label;
  if (column.is_number() && counts.size() != 2) {
    label.threshold = 0;
    return label;
  }
  auto positive = std::find_if(counts.begin(), counts.end(), [](const auto& entry) {
    return Contains(kPositiveTexts, entry.first);
  });
  if (positive == counts.end()) {
    positive = std::min_element(counts.begin(), counts.end(),
                                [](const auto& a, const auto& b) { return a.second < b.second; });
  }
  if (positive != counts.end()) label.positive = {positive->first};
  return label;
}

// A boundary before a number as soon as the bucket so far has its share of what is left.
std::vector<double> Boundaries(const std::map<double, uint64_t>& numbers) {
  uint64_t left = 0;
  for (const auto& [number, count] : numbers) left += count;
  std::vector<double> boundaries;
  uint64_t in_bucket = 0, buckets_left = kMaxBuckets;
  for (const auto& [number, count] : numbers) {
    const bool is_full = in_bucket * buckets_left >= left;
    // A number that would fill a bucket alone does not join the one before it.
    const bool is_frequent = in_bucket > 0 && count * buckets_left >= left;
    if (in_bucket > 0 && (is_full || is_frequent) && buckets_left > 1) {
      boundaries.push_back(number);
      left -= in_bucket;
      in_bucket = 0;
      --buckets_left;
    }
    in_bucket += count;
  }
  return boundaries;
}

class Inference {
 public:
  explicit Inference(uint64_t rows) : rows_(rows) {}

  // The use of the column; fields are added to `spec`.
  std::string Add(const ColumnSummary& column, io::FeatureSpec& spec) {
    if (column.values() == 0) return "left out: no value";
    if (column.distinct() == 1 && column.rows() == rows_) return "left out: one value only";
    if (Contains(kWeightNames, column.name()) && column.is_number() && spec.weight_column.empty() &&
        column.rows() == rows_ && column.numbers().begin()->first >= 0) {
      spec.weight_column = column.name();
      return "weight";
    }
    FieldSpec field = {.name = column.name(), .column = column.name()};
    const double missing = 1 - static_cast<double>(column.rows()) / static_cast<double>(rows_);
    field.missing_key = missing >= kMissingShare;
    if (column.is_number() && (column.distinct() > kFewNumbers || !column.is_integer())) {
      return AddBuckets(column, field, spec);
    }
    field.separator = column.is_number() ? "" : column.Separator();
    const double distinct =
        static_cast<double>(column.distinct()) / static_cast<double>(column.values());
    if (field.separator.empty() && column.values() >= kMinValuesToTell &&
        distinct > kDistinctShare) {
      return "left out: a value of its own in almost every row";
    }
    hashed_values_ += column.distinct();
    const std::string use =
        field.separator.empty() ? "hash" : "hash of the parts between " + field.separator;
    spec.fields.push_back(std::move(field));
    return use;
  }

  int HashBits() const {
    const uint64_t keys = std::bit_ceil(std::max<uint64_t>(1, hashed_values_ * kKeysPerValue));
    return std::clamp(std::countr_zero(keys), io::FeatureSpec{}.hash_bits, 28);
  }

 private:
  static std::string AddBuckets(const ColumnSummary& column, FieldSpec& field,
                                io::FeatureSpec& spec) {
    field.rule = FieldRule::kBucket;
    field.boundaries = Boundaries(column.numbers());
    if (field.boundaries.empty()) return "left out: one value only";
    const std::string use = std::to_string(field.boundaries.size() + 1) + " buckets";
    spec.fields.push_back(std::move(field));
    return use;
  }

  uint64_t rows_;
  uint64_t hashed_values_ = 0;
};

}  // namespace

void ColumnSummary::Add(std::span<const io::FieldValue> values) {
  rows_ += values.empty() ? 0 : 1;
  for (const io::FieldValue& value : values) {
    ++values_;
    io::ValueText room;
    const std::string_view text = io::TextOf(value, room);
    distinct_.insert(io::HashString(text));
    if (has_counts_) ++counts_[std::string(text)];
    if (counts_.size() > kMaxCounts) {
      has_counts_ = false;
      counts_.clear();
    }
    if (const std::optional<double> number = io::NumberOf(value)) {
      ++numbers_;
      integers_ += *number == std::trunc(*number);
      if (numbers_ == values_) ++number_counts_[*number];
    } else {
      number_counts_.clear();
      AddParts(text);
    }
  }
}

void ColumnSummary::AddParts(std::string_view text) {
  for (size_t i = 0; i < kSeparators.size(); ++i) {
    Parts& parts = parts_[i];
    if (text.find(kSeparators[i]) == text.npos) {
      parts.distinct.insert(io::HashString(text));
      continue;
    }
    ++parts.texts;
    while (!text.empty()) {
      const size_t end = std::min(text.find(kSeparators[i]), text.size());
      if (end > 0) parts.distinct.insert(io::HashString(text.substr(0, end)));
      text.remove_prefix(std::min(text.size(), end + 1));
    }
    return;  // one separator per text
  }
}

std::string ColumnSummary::Separator() const {
  for (size_t i = 0; i < kSeparators.size(); ++i) {
    const Parts& parts = parts_[i];
    // Parts that come in many texts, not the words of a sentence.
    if (parts.texts * 3 > values_ && parts.distinct.size() * 2 < distinct()) {
      return std::string(1, kSeparators[i]);
    }
  }
  return "";
}

Result<InferredSpec> InferFeatureSpec(const std::vector<ColumnSummary>& columns, uint64_t rows,
                                      const std::string& label) {
  if (rows == 0) return Invalid("expected rows, found none");
  ASSIGN_OR_RETURN(const ColumnSummary* const label_column, FindLabel(columns, rows, label));
  InferredSpec inferred;
  inferred.spec.label = LabelOf(*label_column);
  Inference inference(rows);
  for (const ColumnSummary& column : columns) {
    inferred.columns.push_back(
        {column.name(), &column == label_column ? "label" : inference.Add(column, inferred.spec)});
  }
  std::sort(inferred.spec.fields.begin(), inferred.spec.fields.end(),
            [](const FieldSpec& a, const FieldSpec& b) { return a.name < b.name; });
  inferred.spec.hash_bits = inference.HashBits();
  RETURN_IF_ERROR(inferred.spec.Validate());
  return inferred;
}

Result<InferredSpec> InferVwSpec(const std::vector<ColumnSummary>& columns,
                                 const std::string& label) {
  InferredSpec inferred;
  const std::string& own = inferred.spec.label.column;
  if (!label.empty() && label != own) {
    return Invalid("label: VW text has it before the first '|': expected '" + own + "', found '" +
                   label + "'");
  }
  std::vector<std::string> namespaces;
  bool has_label = false;
  for (const ColumnSummary& column : columns) {
    std::string use = "hash";
    if (column.name() == own) {
      use = "label";
      has_label = true;
    } else if (column.name() == "weight") {
      use = "weight";
      inferred.spec.weight_column = column.name();
    } else {
      namespaces.push_back(column.name());
    }
    inferred.columns.push_back({column.name(), use});
  }
  if (!has_label) return Invalid("label: no row has one before the first '|'");
  std::sort(namespaces.begin(), namespaces.end());
  for (const std::string& name : namespaces) {
    inferred.spec.fields.push_back({.name = name, .column = name});
  }
  RETURN_IF_ERROR(inferred.spec.Validate());
  return inferred;
}

}  // namespace millrace::records
