// SPDX-License-Identifier: Apache-2.0
// Margins of rows of keys, with the sums in the order of trainer::Model::Margins: equal bits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "io/base/pod_vector.h"
#include "io/base/status.h"
#include "io/batch/csr_batch.h"
#include "io/features/candidate_encoder.h"
#include "sparse/factor_kernels.h"
#include "sparse/score/serving_model.h"

namespace millrace::score {

// Row r has the entries row_begin[r] up to below row_begin[r + 1].
struct KeyRows {
  std::span<const uint64_t> row_begin;  // rows + 1
  const uint64_t* keys = nullptr;
  const float* values = nullptr;     // null: all ones
  const uint16_t* fields = nullptr;  // of the entries; an ffm needs them, others ignore them

  size_t rows() const { return row_begin.size() - 1; }
};

// Rows that share entries of a context: row r has the runs run_end[r - 1] up to below run_end[r].
struct CandidateKeys {
  std::span<const io::SharedRun> runs;
  std::span<const uint32_t> run_end;
  std::span<const uint64_t> keys;  // of all rows, without those of the context
  const float* values = nullptr;   // null: all ones
  const uint16_t* fields = nullptr;

  size_t rows() const { return run_end.size(); }
};

struct KeyCounts {
  uint64_t keys = 0;
  uint64_t unknown = 0;  // without a weight in the model
};

Status TooManyKeys(uint64_t max_keys);

// Not thread-safe (scratch memory): use one per call. Works for any model.
class RowScorer {
 public:
  // Overwrites `margins`, adds to `counts`. Errors (kInvalid) name the row, counted from
  // `first_row`.
  Status Margins(const ServingModel& model, const KeyRows& rows, std::span<float> margins,
                 KeyCounts& counts, size_t first_row = 0);

  // Looks up the entries that the rows of CandidateMargins share. `values` may be null: ones.
  // `fields` is that of KeyRows. Keys and values must live until the last of these rows.
  Status SetContext(const ServingModel& model, std::span<const uint64_t> keys, const float* values,
                    const uint16_t* fields);
  // As Margins of the joined rows. The model is that of the context. An error once there are more
  // than `max_keys` in `counts`.
  Status CandidateMargins(const ServingModel& model, const CandidateKeys& rows,
                          std::span<float> margins, KeyCounts& counts, uint64_t max_keys,
                          size_t first_row = 0);

 private:
  // What was looked up. Keys that are not below num_features are left out.
  struct Entries {
    PodVector<float> weights, factors, values;  // values only where they are wanted
    PodVector<uint64_t> keys;                   // the same
    PodVector<uint16_t> fields;                 // of an ffm

    size_t size() const { return weights.size(); }
    void Clear();
  };
  // Entries [begin, end) of some rows; those up to `ahead` are fetched in advance.
  struct Part {
    const uint64_t* keys;
    const float* values;     // null: ones
    const uint16_t* fields;  // of an ffm
    uint64_t begin, end, ahead;
    bool want_values, want_keys;
  };
  using Loader = Status (*)(const ServingModel& model, const Part& part, Entries& out,
                            uint64_t& unknown);
  template <Layout kLayout, WeightsType kType, bool kFactors>
  static Status Load(const ServingModel& model, const Part& part, Entries& out, uint64_t& unknown);
  static Status LoadFields(const ServingModel& model, const Part& part, Entries& out);
  template <Layout kLayout>
  static Loader LoaderOf(const TableShape& shape);
  void Use(const ServingModel& model);

  void BeginRows();
  // Behind the entries of a row, which begin at `before`.
  void EndRow(const ServingModel& model, size_t before);
  static void Prefetch(const ServingModel& model, const Part& part);
  Status Gather(const ServingModel& model, const KeyRows& rows, size_t row, size_t end,
                size_t first_row, KeyCounts& counts);
  void AddShared(const io::SharedRun& run, const Part& part, KeyCounts& counts);
  Status CheckCandidates(const CandidateKeys& rows, std::span<const float> margins,
                         size_t first_row) const;
  void AddCenters(const ServingModel& model, size_t before);
  void Sum(const ServingModel& model, std::span<float> margins);

  Loader load_ = nullptr;  // of the call's model
  Entries entries_;        // of some rows
  io::CsrBatch batch_;     // of these; cols are 0, 1, 2, ...
  std::span<const uint64_t> context_keys_;
  const float* context_values_ = nullptr;
  Entries context_;
  // By key of the context, and the end: how many before have entries, and how many no weight.
  PodVector<uint32_t> context_begin_, context_unknown_;
  sparse::FactorSums sums_;
  std::vector<uint8_t> seen_;  // of a row: by center
};

}  // namespace millrace::score
