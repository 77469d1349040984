// SPDX-License-Identifier: Apache-2.0
// Batches that are drawn, decoded and delivered together, so that locks and wake-ups are paid once
// per group.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/base/status.h"
#include "io/batch/batch_builder.h"
#include "io/batch/key_compactor.h"
#include "io/queue/input_options.h"
#include "io/record/block_reader.h"
#include "io/rows/row_decoder.h"
#include "io/stream/block_pool.h"

namespace millrace::io {

struct BadRow {
  RecordOrigin origin;
  Status what;
};

struct BatchGroup {
  struct Batch {
    BatchBuilder rows;
    size_t begin = 0;  // in refs
    size_t end = 0;
    InputPosition after;
  };
  struct BadRef {
    size_t ref;
    Status what;
  };
  std::vector<RecordRef> refs;
  std::vector<Batch> batches;
  size_t count = 0;    // batches in use
  uint64_t bytes = 0;  // of the records
  std::vector<BadRef> bad_rows;
  std::optional<BadRow> error;  // follows the batches
  bool ready = false;

  // Keeps the memory.
  void Clear() {
    refs.clear();
    bad_rows.clear();
    count = 0;
    bytes = 0;
    error.reset();
    ready = false;
  }

  // Records after the last batch.
  size_t open_rows() const { return refs.size() - closed_refs(); }
  // Makes these records a batch, if there are any.
  void CloseBatch(const InputPosition& after) {
    if (open_rows() == 0) return;
    const size_t begin = closed_refs();
    Batch& batch = batches[count++];
    batch.begin = begin;
    batch.end = refs.size();
    batch.after = after;
  }

  // The first batch from `at` on that has rows (all records of a batch may be corrupt); moves `at`
  // to it. Null if there is none.
  const Batch* Find(size_t& at) const {
    while (at < count && batches[at].rows.batch.rows() == 0) ++at;
    return at < count ? &batches[at] : nullptr;
  }

 private:
  size_t closed_refs() const { return count == 0 ? 0 : batches[count - 1].end; }
};

// Decodes the records of a group into batches. Not thread-safe.
class BatchGroupDecoder {
 public:
  explicit BatchGroupDecoder(const InputOptions& options);

  // Rows that cannot be decoded are left out and added to bad_rows.
  void Decode(BatchGroup& group);

  // Replaces the records of a block by cached rows (io/stream/row_cache.h). Requires cache_bytes >
  // 0; Decode then expects cached rows.
  void ToCachedRows(Block& block);

 private:
  void DecodeRows(BatchGroup& group, BatchGroup::Batch& batch);
  Status TooManyKeys() const;
  void Compact(BatchBuilder& rows);

  const bool wide_keys_;
  const Framing framing_;
  const uint64_t max_batch_keys_;
  std::unique_ptr<RowDecoder> decoder_;  // of the records in blocks
  std::unique_ptr<KeyCompactor> compactor_;
  std::unique_ptr<RowDecoder> file_decoder_;  // of the records in files, if blocks hold cached rows
  BatchBuilder scratch_;
};

}  // namespace millrace::io
