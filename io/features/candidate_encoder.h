// SPDX-License-Identifier: Apache-2.0
// Applies a feature spec to rows that share the columns of a context: the keys of the fields that
// depend on the context alone are made once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "io/base/pod_vector.h"
#include "io/base/status.h"
#include "io/features/feature_encoder.h"
#include "io/features/field_row.h"

namespace millrace::io {

// A part of a row: some keys of the context, and behind them some of the row itself.
struct SharedRun {
  uint32_t first, shared;  // keys of the context
  uint32_t own;            // the next keys of the row
};

// Rows as their own keys and the runs that join them with those of the context.
struct CandidateRows {
  PodVector<uint64_t> keys;     // of all rows, without those of the context
  PodVector<float> values;      // of these keys
  PodVector<uint16_t> fields;   // the same, if they are wanted
  PodVector<SharedRun> runs;    // of all rows
  PodVector<uint32_t> run_end;  // of each row, in `runs`
  bool ones = true;             // all values are 1

  size_t rows() const { return run_end.size(); }
  void Clear() {
    keys.clear();
    values.clear();
    fields.clear();
    runs.clear();
    run_end.clear();
    ones = true;
  }
};

// A row has the columns of the context, and those of a candidate in place of them. Its keys, joined
// by its runs, are those that FeatureEncoder makes of that row, in the same order. Labels and
// weights are not read. Not thread-safe (scratch memory).
class CandidateEncoder {
 public:
  // With `fields`, as those of FeatureEncoder.
  explicit CandidateEncoder(std::shared_ptr<const EncoderPlan> plan, bool fields = false);

  // As FeatureEncoder, for the context and for the own keys of a row.
  void LimitKeys(uint64_t max_keys) { encoder_.LimitKeys(max_keys); }

  // A value that is wrong is an error of the candidates that do not replace it.
  void SetContext(const FieldRow& context);
  // Valid until the next context.
  const PodVector<uint64_t>& context_keys() const { return context_keys_; }
  const PodVector<float>& context_values() const { return context_values_; }
  const PodVector<uint16_t>& context_fields() const { return context_fields_; }
  bool context_ones() const { return context_ones_; }  // all these values are 1

  // Appends the context's row with the columns of `candidate`, or returns an error that names the
  // column, expected and found, and leaves `rows` unchanged.
  Status Append(const FieldRow& candidate, CandidateRows& rows);

 private:
  static constexpr size_t kNoField = SIZE_MAX;
  // Keys of the context, and then those of a field that depends on the candidate.
  struct Step {
    uint32_t first, shared;
    size_t field;  // in the spec
  };

  // Sees which columns the candidate has.
  Status UseColumnsOf(const FieldRow& candidate);
  bool DependsOnCandidate(size_t field) const;
  Status AppendKeys(const FieldRow& candidate, CandidateRows& rows);

  std::shared_ptr<const EncoderPlan> plan_;
  FeatureEncoder encoder_;
  // Of the context:
  PodVector<uint64_t> context_keys_;
  PodVector<float> context_values_;
  PodVector<uint16_t> context_fields_;
  bool context_ones_ = true;
  std::vector<uint32_t> begin_;                             // by field, and the end
  std::vector<std::vector<FeatureEncoder::Token>> tokens_;  // of fields in crosses
  std::vector<std::pair<size_t, Status>> errors_;           // by field
  // Of candidates with the columns `columns_`:
  bool has_columns_ = false;
  std::vector<uint8_t> columns_;
  std::vector<size_t> crossed_;  // their fields that are in crosses
  std::vector<Step> steps_;
};

}  // namespace millrace::io
