// SPDX-License-Identifier: Apache-2.0
// The training input of one process: the segments of its resume point, one after the other.
#pragma once

#include <memory>

#include "io/base/status.h"
#include "io/batch/csr_batch.h"
#include "io/queue/input_options.h"
#include "io/queue/input_queue.h"
#include "trainer/loop/training_state.h"

namespace millrace::trainer {

// Not thread-safe.
class SegmentInput {
  struct Private {};  // only Open makes inputs

 public:
  // `options` says what is common to all segments. The files must be those of `start`, whose
  // fingerprint is set if it has none. Fills in the segment of a process that has not started.
  static Result<std::unique_ptr<SegmentInput>> Open(io::InputOptions options, ResumePoint& start);
  SegmentInput(Private, io::InputOptions options) : options_(std::move(options)) {}

  // As InputQueue.
  Result<bool> Next(const io::CsrBatch*& batch);
  // Null at the end of a segment, too.
  const io::CsrBatch* Peek() { return queue_->Peek(); }
  // What is left after the batch that Next returned last.
  void Position(ResumePoint& point) const { point.segments = left_; }
  io::InputStats stats() const;
  io::CorruptionStats corruption() const;

 private:
  Status OpenQueue();

  io::InputOptions options_;
  std::vector<StreamSegment> left_;  // the first is that of queue_
  std::unique_ptr<io::InputQueue> queue_;
  io::InputStats earlier_stats_;  // of the segments before
  io::CorruptionStats earlier_corruption_;
};

}  // namespace millrace::trainer
