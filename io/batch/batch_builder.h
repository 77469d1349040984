// SPDX-License-Identifier: Apache-2.0
// A batch under construction: decoders append rows to it, with keys that are not compacted yet.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "io/base/pod_vector.h"
#include "io/batch/csr_batch.h"

namespace millrace::io {

// Narrow (32-bit) keys, for a dense-index table of at most 2^32 features, go to batch.cols. Wide
// (64-bit) keys go to `wide_keys`; cols stay empty until compaction.
struct BatchBuilder {
  CsrBatch batch;
  PodVector<uint64_t> wide_keys;
  bool wide = false;

  void Clear(bool wide_rows) {
    batch.Clear();
    wide_keys.clear();
    wide = wide_rows;
  }
  size_t nnz() const { return batch.row_begin.back(); }

  // Appends a row whose `count` keys were already written to NarrowRoom or WideRoom. A null
  // `values` stands for ones. All rows have `fields`, or none has.
  void FinishRow(size_t count, float label, float weight, const float* values,
                 const uint16_t* fields = nullptr) {
    if (values) {
      // The first value other than one makes the ones of earlier rows explicit.
      batch.values.resize(nnz() + count, 1.0f);
      std::copy(values, values + count, batch.values.end() - static_cast<ptrdiff_t>(count));
    } else if (!batch.values.empty()) {
      batch.values.resize(nnz() + count, 1.0f);
    }
    if (fields) batch.fields.insert(batch.fields.end(), fields, fields + count);
    if (weight != 1.0f || !batch.weights.empty()) {
      batch.weights.resize(batch.rows(), 1.0f);
      batch.weights.push_back(weight);
    }
    batch.labels.push_back(label);
    batch.row_begin.push_back(static_cast<uint32_t>(nnz() + count));
  }

  // Room for the `count` keys of the next row.
  uint32_t* NarrowRoom(size_t count) {
    if (batch.cols.size() < nnz() + count)
      batch.cols.resize(std::max(2 * batch.cols.size(), nnz() + count));
    return batch.cols.data() + nnz();
  }
  uint64_t* WideRoom(size_t count) {
    if (wide_keys.size() < nnz() + count)
      wide_keys.resize(std::max(2 * wide_keys.size(), nnz() + count));
    return wide_keys.data() + nnz();
  }

  void AddRow(float label, float weight, std::span<const uint64_t> keys, const float* values,
              const uint16_t* fields = nullptr) {
    if (wide) {
      std::copy(keys.begin(), keys.end(), WideRoom(keys.size()));
    } else {
      uint32_t* to = NarrowRoom(keys.size());
      for (size_t i = 0; i < keys.size(); ++i) to[i] = static_cast<uint32_t>(keys[i]);
    }
    FinishRow(keys.size(), label, weight, values, fields);
  }

  // Moves the entries whose keys are not below `num_features` from a row to unknown_keys. A null
  // `values` stands for ones; `fields` may be null, too. Returns the number of entries that stay.
  size_t LeaveOutUnknown(uint64_t num_features, std::span<uint64_t> keys, float* values,
                         uint16_t* fields = nullptr) {
    size_t kept = 0;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (keys[i] < num_features) {
        keys[kept] = keys[i];
        if (values) values[kept] = values[i];
        if (fields) fields[kept] = fields[i];
        ++kept;
      } else {
        batch.unknown_keys.push_back(keys[i]);
        batch.unknown_values.push_back(values ? values[i] : 1.0f);
      }
    }
    return kept;
  }

  // Removes the row that was appended last.
  void DropRow() {
    batch.row_begin.pop_back();
    batch.labels.pop_back();
    if (!batch.weights.empty()) batch.weights.pop_back();
    if (!batch.values.empty()) batch.values.resize(nnz());
    if (!batch.fields.empty()) batch.fields.resize(nnz());
  }

  // Cuts the key arrays to their used size. Call it once, when the batch is complete.
  void Trim() {
    if (wide) {
      wide_keys.resize(nnz());
    } else {
      batch.cols.resize(nnz());
    }
  }
};

}  // namespace millrace::io
