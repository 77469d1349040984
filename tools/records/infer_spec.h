// SPDX-License-Identifier: Apache-2.0
// Writes a feature spec for rows from a sample of them.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "io/base/status.h"
#include "io/features/feature_spec.h"
#include "io/features/field_row.h"

namespace millrace::records {

// What a sample says about one column.
class ColumnSummary {
 public:
  explicit ColumnSummary(std::string name) : name_(std::move(name)) {}
  void Add(std::span<const io::FieldValue> values);

  const std::string& name() const { return name_; }
  uint64_t rows() const { return rows_; }  // with a value
  uint64_t values() const { return values_; }
  uint64_t distinct() const { return distinct_.size(); }
  bool is_number() const { return values_ > 0 && numbers_ == values_; }
  bool is_integer() const { return is_number() && integers_ == values_; }
  // Texts and how often they come; only for columns of few values.
  const std::map<std::string, uint64_t>& counts() const { return counts_; }
  // How often a number comes.
  const std::map<double, uint64_t>& numbers() const { return number_counts_; }
  // What separates the parts of most texts: "|", ";" or ","; else empty.
  std::string Separator() const;

 private:
  static constexpr size_t kMaxCounts = 1000;
  static constexpr std::string_view kSeparators = "|;,";
  struct Parts {
    uint64_t texts = 0;  // with the separator
    std::unordered_set<uint64_t> distinct = {};
  };

  void AddParts(std::string_view text);

  std::string name_;
  uint64_t rows_ = 0, values_ = 0, numbers_ = 0, integers_ = 0;
  std::unordered_set<uint64_t> distinct_;  // hashes of texts
  std::map<std::string, uint64_t> counts_;
  bool has_counts_ = true;
  std::map<double, uint64_t> number_counts_;
  Parts parts_[kSeparators.size()];
};

struct InferredColumn {
  std::string column;
  std::string use;  // "label", "hash", "24 buckets", "left out: one value only"
};

struct InferredSpec {
  io::FeatureSpec spec;
  std::vector<InferredColumn> columns;  // as in the summaries
};

// `rows` is the size of the sample. `label` is the label's column; if it is empty, the column that
// looks like one is taken, and several or none are an error that names the candidates.
//
// Fields are in the order of their names, so that the same rows in another format give the same
// keys. Numbers of many values become buckets of about the same number of rows, a frequent number
// has a bucket of its own; all others are hashed.
Result<InferredSpec> InferFeatureSpec(const std::vector<ColumnSummary>& columns, uint64_t rows,
                                      const std::string& label);

// Of VW text: its label and importance (see VwColumns), and a hash of each namespace, in the order
// of their names.
Result<InferredSpec> InferVwSpec(const std::vector<ColumnSummary>& columns,
                                 const std::string& label);

}  // namespace millrace::records
