// SPDX-License-Identifier: Apache-2.0
// Writes a serving model.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "io/base/pod_vector.h"
#include "io/base/status.h"
#include "io/record/output_file.h"
#include "io/state/state_fields.h"
#include "sparse/score/serving_format.h"

namespace millrace::score {

// The file appears under its name, complete and synced, when Finish succeeds. A dense table is
// written as its entries come; a hash table is made in memory. Not thread-safe.
class ServingWriter {
 public:
  // `fields`: those of the model, without the table. `num_features`: as in the fields.
  static Result<ServingWriter> Create(const std::string& path, const TableShape& table,
                                      const io::StateFields& fields);

  // Keys ascend; the intercept comes last. `numbers` has the weight and the factors; the intercept
  // has its weight alone. An error for a number that is not finite or does not fit the type.
  Status Add(uint64_t key, std::span<const float> numbers);
  Status Finish();

  uint64_t file_bytes() const { return written_; }

 private:
  ServingWriter(io::OutputFile file, const TableShape& table, io::StateFields fields)
      : file_(std::move(file)), table_(table), fields_(std::move(fields)) {}

  Status Encode(uint64_t key, std::span<const float> numbers);
  Status AddToHash(uint64_t key);
  // Appends zeros to the table until it has `bytes` bytes.
  Status FillTo(uint64_t bytes);
  Status Append(const char* bytes, size_t size);
  Status WriteBlock();

  io::OutputFile file_;
  TableShape table_;
  io::StateFields fields_;
  PodVector<char> entry_;       // the encoded numbers
  std::vector<char> buckets_;   // hash
  uint64_t keys_ = 0;           // added
  uint64_t table_bytes_ = 0;    // appended, dense
  PodVector<char> block_;       // of kServingBlockBytes at most
  std::vector<uint32_t> crcs_;  // of the blocks before it
  uint64_t written_ = 0;
  uint64_t weights_ = 0;
  float intercept_ = 0;
};

}  // namespace millrace::score
