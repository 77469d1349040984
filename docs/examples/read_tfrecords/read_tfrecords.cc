// SPDX-License-Identifier: Apache-2.0
// Reads TFRecord files of sparse examples into shuffled batches and prints what is in them:
//
//   read_tfrecords 'data/train-*'
//
// An example has a label, a list of feature keys ("index") and, if not all are 1, a list of values.
#include <cstdint>
#include <cstdio>

#include "io/queue/input_queue.h"
#include "io/stream/file_list.h"

using namespace millrace;

// The features of one row. A batch is in compressed-sparse-row form: row r has the entries from
// row_begin[r] to row_begin[r + 1], and an entry's column is its position in `keys`, which holds
// the batch's keys sorted and without duplicates.
void PrintRow(const io::CsrBatch& batch, size_t row) {
  std::printf("label %g:", batch.labels[row]);
  for (uint32_t entry = batch.row_begin[row]; entry < batch.row_begin[row + 1]; ++entry) {
    const uint64_t key = batch.keys[batch.cols[entry]];
    const float value = batch.values.empty() ? 1 : batch.values[entry];
    std::printf(" %llu:%g", static_cast<unsigned long long>(key), value);
  }
  std::printf("\n");
}

Status ReadAll(const char* pattern) {
  io::InputOptions options;
  ASSIGN_OR_RETURN(options.files, io::ExpandFiles(pattern));
  options.batch_size = 100;
  options.epochs = 2;
  options.seed = 1;  // the same seed gives the same batches, with any number of threads
  ASSIGN_OR_RETURN(const auto queue, io::InputQueue::Open(options));

  uint64_t batches = 0, rows = 0, entries = 0, clicks = 0;
  while (true) {
    const io::CsrBatch* batch = nullptr;  // valid until the next call of Next
    ASSIGN_OR_RETURN(const bool more, queue->Next(batch));
    if (!more) break;
    if (batches == 0) PrintRow(*batch, 0);
    ++batches;
    rows += batch->rows();
    entries += batch->nnz();
    for (const float label : batch->labels) clicks += label > 0.5f;
  }
  std::printf("%llu rows in %llu batches, %.1f features per row, %.1f %% clicks\n",
              static_cast<unsigned long long>(rows), static_cast<unsigned long long>(batches),
              static_cast<double>(entries) / static_cast<double>(rows),
              100.0 * static_cast<double>(clicks) / static_cast<double>(rows));
  return {};
}

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: read_tfrecords 'PATTERN'\n");
    return 2;
  }
  const Status status = ReadAll(argv[1]);
  if (!status.ok()) std::fprintf(stderr, "read_tfrecords: %s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
