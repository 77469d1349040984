// SPDX-License-Identifier: Apache-2.0
#include "trainer/sparse/segment_input.h"

#include <algorithm>
#include <utility>

namespace millrace::trainer {

Result<std::unique_ptr<SegmentInput>> SegmentInput::Open(io::InputOptions options,
                                                         ResumePoint& start) {
  if (start.segments.empty()) {
    start.segments.push_back({.shard = options.shard, .num_shards = options.num_shards});
  }
  auto input = std::make_unique<SegmentInput>(Private{}, std::move(options));
  input->left_ = start.segments;
  RETURN_IF_ERROR(input->OpenQueue());
  const uint64_t found = input->queue_->fingerprint();
  if (start.input_fingerprint != 0 && found != start.input_fingerprint) {
    const std::vector<std::string>& files = input->options_.files;
    return Invalid(
        "resume: the training files are not those of the checkpoint: their number or order "
        "differs, "
        "or the size, the first or the last bytes (remote files: the ETag) of " +
        (files.size() == 1 ? files[0] : "one of them"));
  }
  start.input_fingerprint = found;
  return input;
}

Status SegmentInput::OpenQueue() {
  const StreamSegment& segment = left_.front();
  io::InputOptions options = options_;
  options.shard = segment.shard;
  options.num_shards = segment.num_shards;
  options.start = segment.position;
  options.epochs = std::min(options_.epochs, segment.end_epoch);
  ASSIGN_OR_RETURN(queue_, io::InputQueue::Open(std::move(options)));
  return {};
}

Result<bool> SegmentInput::Next(const io::CsrBatch*& batch) {
  while (true) {
    ASSIGN_OR_RETURN(const bool more, queue_->Next(batch));
    if (more) {
      left_.front().position = queue_->position();
      return true;
    }
    if (left_.size() == 1) return false;
    earlier_stats_ = stats();
    earlier_corruption_ = corruption();
    left_.erase(left_.begin());
    RETURN_IF_ERROR(OpenQueue());
  }
}

io::InputStats SegmentInput::stats() const {
  io::InputStats all = queue_->stats();
  all.rows += earlier_stats_.rows;
  all.batches += earlier_stats_.batches;
  all.bytes_read += earlier_stats_.bytes_read;
  all.caller_wait_seconds += earlier_stats_.caller_wait_seconds;
  all.worker_wait_seconds += earlier_stats_.worker_wait_seconds;
  return all;
}

io::CorruptionStats SegmentInput::corruption() const {
  io::CorruptionStats all = earlier_corruption_;
  all.Merge(queue_->corruption());
  return all;
}

}  // namespace millrace::trainer
