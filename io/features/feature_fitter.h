// SPDX-License-Identifier: Apache-2.0
// The first pass over the data: finds what a spec leaves open (vocabularies, quantiles, scales),
// or extends the vocabularies of a spec.
//
//   FeatureFitter fitter(spec);
//   fitter.Add(row);                 for each row
//   spec = fitter.Finish();
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "io/base/random.h"
#include "io/base/status.h"
#include "io/features/feature_spec.h"
#include "io/features/field_row.h"

namespace millrace::io {

// Not thread-safe. The result depends on the rows and, for quantiles of more than kSample values,
// on their order.
class FeatureFitter {
 public:
  static constexpr size_t kSample = 200000;

  explicit FeatureFitter(const FeatureSpec& spec);
  // `row` has the columns of spec.Columns(). An error names the column, expected and found.
  Status Add(const FieldRow& row);
  // A fitted spec. Fields that were fitted keep what they have, except that new values of
  // vocabularies with at least min_count occurrences get the ranks after all others, field by field
  // in the order of their texts. Values that are not UTF-8 stay unseen, because JSON cannot hold
  // them. Call it once.
  Result<FeatureSpec> Finish();

 private:
  struct Field {
    size_t column = 0;
    std::unordered_map<std::string, uint64_t> counts = {};  // vocabulary
    uint64_t numbers = 0;
    double mean = 0, squares = 0, max_abs = 0;
    std::vector<double> sample = {};
  };

  Status AddValue(const FieldSpec& spec, const FieldValue& value, Field& field);
  void AddText(std::string_view text, Field& field);
  void AddNumber(const FieldSpec& spec, double number, Field& field);
  static void FinishQuantiles(FieldSpec& spec, Field& field);
  static void FinishScale(FieldSpec& spec, const Field& field);
  void FinishVocabulary(FieldSpec& spec, const Field& field);

  FeatureSpec spec_;
  std::vector<Field> fields_;
  uint64_t next_rank_ = 0;
  Random random_{1};
  std::string text_;
};

}  // namespace millrace::io
