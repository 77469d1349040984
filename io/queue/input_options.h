// SPDX-License-Identifier: Apache-2.0
// The options of an input queue.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "io/rows/row_decoder.h"
#include "io/stream/block_stream.h"

namespace millrace::io {

// A position between two batches. A queue opened with `start` set to a saved position continues
// with exactly the batches that the first queue would have returned next.
struct InputPosition {
  uint64_t epoch = 0;
  uint64_t rows = 0;  // drawn in that epoch
  // Of all data that was read for these rows, which is read again to continue: if it differs then,
  // Next returns an error.
  uint64_t digest = 0;
};

struct InputOptions {
  std::vector<std::string> files;
  InputFormat format = InputFormat::kTfRecord;
  RowOptions rows = {};
  OnCorrupt on_corrupt = OnCorrupt::kFail;
  size_t batch_size = 100;
  bool compact = true;              // make `keys` (see CsrBatch); required for 64-bit keys
  size_t shuffle_capacity = 20000;  // 0: keep the files' order
  size_t min_after_dequeue = 10000;
  uint64_t seed = 1;
  uint64_t epochs = 1;
  InputPosition start = {};
  // This worker's part of the data: files / num_shards whole files, and every num_shards-th record
  // of the remaining files.
  uint64_t shard = 0;
  uint64_t num_shards = 1;
  // Bytes of decoded rows to keep in memory for later epochs (0: none); other rows are read again.
  // It does not change the batches.
  uint64_t cache_bytes = 0;
  size_t threads = 2;
  size_t interleave = 8;  // files that are read in turn, see StreamOptions
  size_t block_bytes = 256 << 10;
  // The longest record or line, see BlockOptions. The shuffle buffer and a batch hold at most 32
  // times as many bytes, and a batch has at most 4 times as many keys; more is an error.
  uint64_t max_record_bytes = BlockOptions{}.max_record_bytes;
  // A batch does not wait until it is full: rows that arrive through a pipe are delivered when no
  // more are waiting. Batches then depend on timing. Requires shuffle_capacity = 0.
  bool streaming = false;
  bool for_evaluation = false;  // names its threads and counter differently in traces
  // Called several times a second while Next waits (a FIFO may block it indefinitely): true makes
  // Next return kCancelled.
  std::function<bool()> should_stop = nullptr;

  Status Validate() const;
  // The options of the block stream that this queue reads.
  StreamOptions Stream() const;
};

// Rows have the columns of `spec`, whether it is fitted or not: finds out how CSV files are
// written, which reads the first bytes of one, and prepares the first table (without fields in
// `spec`: all its columns). Criteo text is read as CSV. An error if the format has no columns.
Status UseColumns(const FeatureSpec& spec, InputOptions& input);
// Batches get the number of each entry's field. Rows of a feature spec (the position of the field
// in the spec) and Criteo text (39 columns) say how many fields there are, and `num_fields` is 0 or
// the same number; for libffm text and TFRecords it must be given. libsvm and VW text have no
// fields.
Status UseFields(size_t num_fields, InputOptions& input);
// An error if a feature or column that the options name is in none of the first records, see
// io/stream/input_files.h.
Status CheckNames(const InputOptions& options);
// `features` makes the keys of the rows: sets `rows`, and calls UseColumns.
Status UseFeatures(std::shared_ptr<const EncoderPlan> features, InputOptions& input);

}  // namespace millrace::io
