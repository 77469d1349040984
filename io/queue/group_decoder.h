// Turns the records of a group of batches into rows.
#pragma once

#include <memory>

#include "io/batch/key_compactor.h"
#include "io/batch/row_sink.h"
#include "io/queue/batch_group.h"
#include "io/queue/input_options.h"
#include "io/record/block_reader.h"
#include "io/rows/row_decoder.h"

namespace millrace::io {

// For one thread at a time.
class GroupDecoder {
 public:
  explicit GroupDecoder(const InputOptions& options);

  // Rows that cannot be decoded are left out and noted in bad_rows.
  void Decode(BatchGroup& group);

  // Replaces a file's records by rows in the form in which they are kept in memory. Only with
  // cache_bytes set; Decode then expects that form.
  void ToCachedRows(Block& block);

 private:
  void DecodeRows(BatchGroup& group, BatchGroup::Batch& batch);
  void Compact(RowSink& rows);

  const bool wide_keys_;
  const Framing framing_;
  std::unique_ptr<RowDecoder> decoder_;  // of what blocks hold
  std::unique_ptr<KeyCompactor> compactor_;
  std::unique_ptr<RowDecoder> file_decoder_;  // of what files hold, where blocks hold cached rows
  RowSink scratch_;
};

}  // namespace millrace::io
