// What an input queue gives, and from where it begins.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "io/rows/row_decoder.h"
#include "io/stream/block_stream.h"

namespace millrace::io {

// A place between two batches. A queue opened with `start` set to a saved position goes on with
// exactly the batches that the first one would have given next.
struct InputPosition {
  uint64_t epoch = 0;
  uint64_t rows = 0;  // drawn in that epoch
};

struct InputOptions {
  std::vector<std::string> files;
  InputFormat format = InputFormat::kTfRecord;
  RowOptions rows = {};
  OnCorrupt on_corrupt = OnCorrupt::kFail;
  size_t batch_size = 100;
  bool compact = true;              // keys sorted and unique beside cols; needed for open models
  size_t shuffle_capacity = 20000;  // 0: the files' own order
  size_t min_after_dequeue = 10000;
  uint64_t seed = 1;
  uint64_t epochs = 1;
  InputPosition start = {};
  // This worker's part of the data: as many whole files as there are for each shard, and every
  // num_shards-th record of those that are left over.
  uint64_t shard = 0;
  uint64_t num_shards = 1;
  // Bytes of decoded rows to keep in memory for later epochs (0: none); what does not fit is read
  // again. The batches are the same.
  uint64_t cache_bytes = 0;
  size_t threads = 2;
  size_t lanes = 8;
  size_t block_bytes = 256 << 10;
  bool for_tests = false;  // in the trace: its threads and counter have names of their own
  // Asked some times a second while Next waits (a FIFO may keep it waiting for ever): true makes it
  // return kCancelled.
  std::function<bool()> should_stop = nullptr;

  Status Validate() const;
  // What is read of the files for this shard, and in which order.
  StreamOptions Stream() const;
};

}  // namespace millrace::io
