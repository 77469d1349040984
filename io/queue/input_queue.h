// SPDX-License-Identifier: Apache-2.0
// The input queue: files -> records -> shuffled batches, prepared by worker threads while the
// caller computes.
//
//   ASSIGN_OR_RETURN(auto queue, InputQueue::Open(options));
//   const CsrBatch* batch;
//   while (true) {
//     ASSIGN_OR_RETURN(const bool more, queue->Next(batch));
//     if (!more) break;
//     ...
//   }
//
// The records of a batch depend on the options alone (files, seed, capacity, min_after_dequeue,
// interleave, block size, shard), never on the number of threads or on timing. A record is passed
// on as a reference of 16 bytes; its bytes are read once, checked once, and decoded once, directly
// into the batch that it was drawn for.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "io/base/status.h"
#include "io/batch/csr_batch.h"
#include "io/queue/batch_group.h"
#include "io/queue/input_options.h"
#include "io/stream/block_pool.h"
#include "io/stream/block_stream.h"
#include "io/stream/shuffle_buffer.h"

namespace millrace::io {

// Waiting times and fill levels of a queue.
struct InputStats {
  uint64_t rows = 0;  // returned by Next
  uint64_t batches = 0;
  uint64_t bytes_read = 0;         // decompressed
  double caller_wait_seconds = 0;  // in Next: the input is the bottleneck
  double worker_wait_seconds = 0;  // summed over threads: the caller is the bottleneck
  size_t batches_ready = 0;
  size_t shuffle_size = 0;
  uint64_t block_bytes_held = 0;
  uint64_t bytes_cached = 0;
};

class InputQueue {
  struct Private {};  // only Open makes queues

 public:
  static Result<std::unique_ptr<InputQueue>> Open(InputOptions options);
  InputQueue(Private, InputOptions options);
  // Waits for the threads. A thread that is blocked in a read (of a FIFO without writer) delays it.
  ~InputQueue();
  InputQueue(const InputQueue&) = delete;
  InputQueue& operator=(const InputQueue&) = delete;

  // True and a batch that stays valid until the next call, false at the end of the last epoch, or
  // an error; no batches follow an error. A batch has batch_size rows, except the last one of an
  // epoch, those whose corrupt records OnCorrupt::kSkip left out, and those of a streaming queue.
  // Not thread-safe.
  Result<bool> Next(const CsrBatch*& batch);

  // The batch that Next will give next, valid as long as that one; null where there is none or an
  // error comes first. Waits for it like Next.
  const CsrBatch* Peek();

  // Whether Next would return at once.
  bool HasNext() const;

  // The position after the batch that Next returned last.
  InputPosition position() const { return position_; }
  // Identifies the files (order, sizes, both ends of each): a position is valid only with the same
  // files. The position's digest covers the data before it.
  uint64_t fingerprint() const { return fingerprint_; }

  // Thread-safe.
  InputStats stats() const;
  CorruptionStats corruption() const;

 private:
  void Start();
  void Work(std::stop_token stop);
  enum class Supply { kRecords, kWait, kEpochDone, kStopped };
  Supply FillBuffer();
  void AddPending();
  void StartEpoch(uint64_t epoch);
  void EndEpoch();
  BatchGroup& NewGroup();
  BatchGroup* DrawGroup();
  bool IsFull(const BatchGroup& group) const;
  void DrawRecords(BatchGroup& group);
  void CheckBuffered();
  void CheckDigest();
  void FinishGroup(BatchGroup& group);
  std::string Message(const BadRow& bad) const;
  bool IsBefore(const BadRow& a, const BadRow& b) const;
  BatchGroup* TakeGroup();
  bool FrontIsReady() const;
  BatchGroup* TakeFront();
  bool MayTakeMore() const;
  const CsrBatch* FindNext() const;

  const InputOptions options_;
  const size_t batches_per_group_;
  const size_t max_groups_;
  uint64_t fingerprint_ = 0;

  mutable std::mutex mu_;
  std::condition_variable work_;   // workers may have something to do
  std::condition_variable ready_;  // the caller may have something to take
  // Guarded by mu_:
  BlockPool pool_;
  BlockStream stream_;
  ShuffleBuffer buffer_;
  PooledBlock* pending_ = nullptr;  // the block that the buffer is being filled from
  size_t pending_next_ = 0;
  InputPosition drawn_;
  uint64_t rows_to_skip_;
  bool ended_ = false;                // all records were drawn
  Status stream_error_;               // follows the groups that were drawn before it
  BatchGroup* drawing_ = nullptr;     // being drawn; its batch may be unfinished
  uint64_t open_batch_bytes_ = 0;     // of the records of the unfinished batch
  std::deque<BatchGroup*> in_order_;  // drawn, decoded or not, oldest first
  uint64_t in_order_bytes_ = 0;       // of their records
  std::vector<std::unique_ptr<BatchGroup>> groups_;
  std::vector<BatchGroup*> free_groups_;
  CorruptionStats row_corruption_;
  BadRow first_skipped_;  // row_corruption_.first lacks its location
  InputStats stats_;

  // Used by the caller's thread only:
  BatchGroup* current_ = nullptr;
  size_t next_batch_ = 0;
  std::deque<BatchGroup*> ahead_;  // groups after current_ that a peek took
  InputPosition position_;
  Status failed_;

  std::vector<std::jthread> threads_;  // last: they stop before other members are destroyed
};

}  // namespace millrace::io
