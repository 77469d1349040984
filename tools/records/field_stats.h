// SPDX-License-Identifier: Apache-2.0
// What each field of a feature spec gives for rows: keys, rows with a key, labels of these rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "io/features/feature_encoder.h"
#include "io/features/field_row.h"
#include "tools/records/distinct_counter.h"

namespace millrace::records {

// Not thread-safe.
class FieldStats {
 public:
  explicit FieldStats(const std::shared_ptr<const io::EncoderPlan>& plan);
  // `row` has the columns of the spec; it may lack a label.
  Status Add(const io::FieldRow& row);

  // A table for people, or one JSON object.
  std::string Text() const;
  std::string Json() const;

 private:
  struct Field {
    uint64_t keys = 0;
    uint64_t rows = 0;     // with a key
    uint64_t labeled = 0;  // of these, with a label
    uint64_t positives = 0;
    DistinctCounter distinct = {};
  };

  std::shared_ptr<const io::EncoderPlan> plan_;
  io::FeatureEncoder encoder_;
  std::vector<Field> fields_;
  std::vector<uint64_t> last_row_;  // by field: the number of the last row that had a key
  uint64_t rows_ = 0, labeled_ = 0, positives_ = 0;
};

}  // namespace millrace::records
