// SPDX-License-Identifier: Apache-2.0
#include "io/queue/input_queue.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "io/base/random.h"
#include "io/queue/batch_group.h"
#include "io/queue/first_bad_row.h"
#include "io/stream/block_pool.h"
#include "io/stream/input_files.h"
#include "io/text/file_format.h"
#include "profiler/clock.h"
#include "profiler/trace.h"

namespace millrace::io {
namespace {

// Rows per group: enough to make locks and wake-ups cheap.
constexpr size_t kRowsPerGroup = 1024;
// Long rows make small groups, and few of them wait for the caller.
constexpr uint64_t kMaxGroupBytes = 4 << 20;
constexpr uint64_t kMaxWaitingBytes = 64 << 20;
// The bytes of the shuffle buffer and of a batch, as a multiple of max_record_bytes.
constexpr uint64_t kBufferedRecords = 32;
constexpr std::chrono::milliseconds kStopPollPeriod(100);

}  // namespace

Result<std::unique_ptr<InputQueue>> InputQueue::Open(InputOptions options) {
  RETURN_IF_ERROR(options.Validate());
  RETURN_IF_ERROR(CheckInputFiles(options.files));
  if (options.rows.check_names) RETURN_IF_ERROR(CheckNames(options));
  auto queue = std::make_unique<InputQueue>(Private{}, std::move(options));
  queue->Start();
  return queue;
}

InputQueue::InputQueue(Private, InputOptions options)
    : options_(std::move(options)),
      batches_per_group_(std::max<size_t>(1, kRowsPerGroup / options_.batch_size)),
      max_groups_(options_.threads + 4),
      stream_(options_.Stream(), pool_),
      buffer_(options_.shuffle_capacity,
              options_.shuffle_capacity > 0 ? options_.min_after_dequeue : 0),
      rows_to_skip_(options_.start.rows),
      position_(options_.start) {
  fingerprint_ = FingerprintOf(options_.files);
  StartEpoch(options_.start.epoch);
}

// One thread of a streaming queue may be blocked in a read while another one decodes.
void InputQueue::Start() {
  const size_t threads = std::max<size_t>(options_.threads, options_.streaming ? 2 : 1);
  for (size_t i = 0; i < threads; ++i) {
    threads_.emplace_back([this](std::stop_token stop) { Work(std::move(stop)); });
  }
}

InputQueue::~InputQueue() {
  for (std::jthread& thread : threads_) thread.request_stop();
  {
    // A worker between its check and its wait must not miss the notification.
    std::lock_guard lock(mu_);
  }
  work_.notify_all();
  threads_.clear();
}

// A worker decodes if it can, else reads, else waits.
void InputQueue::Work(std::stop_token stop) {
  profiler::NameThread(options_.for_evaluation ? "evaluation input" : "input");
  BatchGroupDecoder decoder(options_);
  const auto to_cached_rows = [&](Block& block) { decoder.ToCachedRows(block); };
  BlockStream::Reading reading;
  std::unique_lock lock(mu_);
  while (!stop.stop_requested()) {
    if (BatchGroup* group = DrawGroup()) {
      work_.notify_one();  // there may be more to draw
      lock.unlock();
      decoder.Decode(*group);
      lock.lock();
      FinishGroup(*group);
      ready_.notify_one();
    } else if (stream_.TakeLane(reading)) {
      work_.notify_one();  // other lanes may have room
      if (ended_ || !stream_error_.ok()) ready_.notify_one();
      lock.unlock();
      stream_.Read(reading, to_cached_rows);
      lock.lock();
      stream_.Finish(reading);
    } else {
      if (ended_ || !stream_error_.ok()) ready_.notify_one();
      const double begin_s = NowSeconds();
      work_.wait(lock);
      stats_.worker_wait_seconds += NowSeconds() - begin_s;
    }
  }
}

void InputQueue::StartEpoch(uint64_t epoch) {
  drawn_ = {.epoch = epoch};
  buffer_.Start(DeriveSeed(options_.seed, kShuffleStream, epoch));
}

// Fills the buffer until a record can be drawn.
InputQueue::Supply InputQueue::FillBuffer() {
  while (!buffer_.CanDraw()) {
    if (ended_ || !stream_error_.ok()) return Supply::kStopped;
    if (buffer_.Finished()) return Supply::kEpochDone;
    if (pending_) {
      AddPending();
      continue;
    }
    switch (stream_.Take(pending_)) {
      case BlockStream::Next::kBlock:
        pending_next_ = 0;
        drawn_.digest = Mix64(drawn_.digest + pending_->content().digest);
        break;
      case BlockStream::Next::kWait:
        return Supply::kWait;
      case BlockStream::Next::kEpochEnd:
        buffer_.End();
        break;
      case BlockStream::Next::kEnd:
        ended_ = true;
        break;
      case BlockStream::Next::kError:
        stream_error_ = stream_.error();
        break;
    }
  }
  return Supply::kRecords;
}

// An epoch without rows ends the data: further epochs would have none either.
void InputQueue::EndEpoch() {
  if (rows_to_skip_ > 0) {
    stream_error_ =
        Invalid("cannot resume at row " + std::to_string(options_.start.rows) + " of epoch " +
                std::to_string(options_.start.epoch) + ": the epoch has only " +
                std::to_string(drawn_.rows) + " rows, so the data has changed");
  }
  ended_ = drawn_.rows == 0 || drawn_.epoch + 1 >= options_.epochs;
  if (!ended_) StartEpoch(drawn_.epoch + 1);
}

// All rows before the starting position were read again.
void InputQueue::CheckDigest() {
  if (drawn_.digest == options_.start.digest) return;
  const std::vector<std::string>& files = options_.files;
  stream_error_ = Invalid(
      "cannot resume at row " + std::to_string(drawn_.rows) + " of epoch " +
      std::to_string(drawn_.epoch) + ": the data before it has changed, in " + files.front() +
      (files.size() == 1 ? "" : " or another of " + std::to_string(files.size()) + " files"));
}

// Moves records of the pending block into the buffer until it is full or the block is used up.
void InputQueue::AddPending() {
  if (pending_next_ == 0) buffer_.Compact(pool_);
  const Block& block = pending_->content();
  const size_t end = std::min(block.records.size(), pending_next_ + buffer_.Wanted());
  for (; pending_next_ < end; ++pending_next_) {
    const RecordSpan& span = block.records[pending_next_];
    buffer_.Add({block.bytes.data() + span.begin, span.size, pending_->number});
  }
  CheckBuffered();
  if (pending_next_ == block.records.size()) pending_ = nullptr;
}

// Many records just below max_record_bytes must not fill the memory either.
void InputQueue::CheckBuffered() {
  const uint64_t limit = kBufferedRecords * options_.max_record_bytes;
  const uint64_t found = buffer_.live_bytes() + open_batch_bytes_;
  if (found <= limit || !stream_error_.ok()) return;
  const size_t rows = buffer_.size() + (drawing_ ? drawing_->open_rows() : 0);
  stream_error_ = Invalid(
      (pending_ ? *pending_->path + ": " : std::string()) + "expected rows of at most " +
      std::to_string(limit) + " bytes in the shuffle buffer and a batch, found " +
      std::to_string(found) + " bytes in " + std::to_string(rows) +
      " rows: lower shuffle_capacity or batch_size, or raise max_record_bytes (the limit is " +
      std::to_string(kBufferedRecords) + " times that)");
}

// Whether the group is complete: it has no unfinished batch.
bool InputQueue::IsFull(const BatchGroup& group) const {
  if (group.count == batches_per_group_) return true;
  return group.count > 0 && group.bytes >= kMaxGroupBytes && group.open_rows() == 0;
}

BatchGroup& InputQueue::NewGroup() {
  if (free_groups_.empty()) {
    groups_.push_back(std::make_unique<BatchGroup>());
    groups_.back()->batches.resize(batches_per_group_);
    free_groups_.push_back(groups_.back().get());
  }
  BatchGroup& group = *free_groups_.back();
  free_groups_.pop_back();
  group.Clear();
  return group;
}

// The records of the next batches; null if some are not read yet or there is no room for a group.
BatchGroup* InputQueue::DrawGroup() {
  if (!drawing_) {
    if (in_order_.size() >= max_groups_ || in_order_bytes_ >= kMaxWaitingBytes || ended_ ||
        !stream_error_.ok())
      return nullptr;
    drawing_ = &NewGroup();
  }
  TRACE_SCOPE("draw", profiler::Cat::kInput);
  while (!IsFull(*drawing_)) {
    const Supply supply = FillBuffer();
    if (supply == Supply::kStopped) break;
    if (supply == Supply::kRecords) {
      DrawRecords(*drawing_);
      continue;
    }
    // The rows of a streaming queue do not wait for those that have not arrived yet.
    const bool waits = supply == Supply::kWait;
    if (waits && (!options_.streaming || drawing_->refs.empty())) return nullptr;
    drawing_->CloseBatch(drawn_);
    open_batch_bytes_ = 0;
    if (waits) break;
    EndEpoch();
  }
  BatchGroup* group = std::exchange(drawing_, nullptr);
  if (group->count == 0) {
    for (const RecordRef& ref : group->refs) pool_.Release(ref);
    free_groups_.push_back(group);
    return nullptr;
  }
  in_order_.push_back(group);
  in_order_bytes_ += group->bytes;
  return group;
}

// Draws until the batch is full or the buffer has to be filled. Rows before the starting position
// are dropped.
void InputQueue::DrawRecords(BatchGroup& group) {
  size_t open = group.open_rows();
  while (buffer_.CanDraw()) {
    const RecordRef ref = buffer_.Draw();
    ++drawn_.rows;
    if (rows_to_skip_ > 0) {
      pool_.Release(ref);
      if (--rows_to_skip_ == 0) CheckDigest();
      continue;
    }
    group.refs.push_back(ref);
    group.bytes += ref.size;
    open_batch_bytes_ += ref.size;
    if (++open == options_.batch_size) {
      open_batch_bytes_ = 0;
      return group.CloseBatch(drawn_);
    }
  }
  CheckBuffered();
}

// In the order of the files, whatever the order in which they are drawn and decoded.
bool InputQueue::IsBefore(const BadRow& a, const BadRow& b) const {
  if (*a.origin.path == *b.origin.path) return a.origin.offset < b.origin.offset;
  for (const std::string& file : options_.files) {
    if (file == *a.origin.path) return true;
    if (file == *b.origin.path) return false;
  }
  return false;
}

// Releases the records, and counts or reports the bad ones.
void InputQueue::FinishGroup(BatchGroup& group) {
  for (const BatchGroup::BadRef& bad : group.bad_rows) {
    const RecordRef& ref = group.refs[bad.ref];
    const BadRow row = {pool_.Origin(ref), bad.what};
    if (options_.on_corrupt == OnCorrupt::kSkip) {
      if (row_corruption_.events == 0 || IsBefore(row, first_skipped_)) first_skipped_ = row;
      row_corruption_.Add(ref.size, row.what.message());
      continue;
    }
    group.error = row;
    while (group.count > 0 && group.batches[group.count - 1].end > bad.ref) --group.count;
    break;
  }
  for (const RecordRef& ref : group.refs) pool_.Release(ref);
  group.ready = true;
}

Result<bool> InputQueue::Next(const CsrBatch*& batch) {
  while (failed_.ok()) {
    if (const BatchGroup::Batch* next = current_ ? current_->Find(next_batch_) : nullptr) {
      ++next_batch_;
      position_ = next->after;
      batch = &next->rows.batch;
      return true;
    }
    if (current_) {
      if (current_->error) failed_ = Corrupt(Message(FirstBadRow(options_, *current_->error)));
      std::lock_guard lock(mu_);
      free_groups_.push_back(std::exchange(current_, nullptr));
    }
    next_batch_ = 0;
    if (!ahead_.empty()) {
      current_ = ahead_.front();
      ahead_.pop_front();
    } else if (failed_.ok()) {
      current_ = TakeGroup();
    }
    if (!current_ && failed_.ok()) return false;
  }
  return failed_;
}

// The batch after the present one, in the groups that were taken; null if it is in a later one.
const CsrBatch* InputQueue::FindNext() const {
  const auto find_in = [](const BatchGroup& group, size_t at) { return group.Find(at); };
  const BatchGroup::Batch* next = current_ ? find_in(*current_, next_batch_) : nullptr;
  for (size_t i = 0; !next && i < ahead_.size(); ++i) next = find_in(*ahead_[i], 0);
  return next ? &next->rows.batch : nullptr;
}

// Whether batches may follow the groups that were taken.
bool InputQueue::MayTakeMore() const {
  const BatchGroup* last = ahead_.empty() ? current_ : ahead_.back();
  return failed_.ok() && (!last || !last->error);
}

const CsrBatch* InputQueue::Peek() {
  const CsrBatch* next = FindNext();
  while (!next && MayTakeMore()) {
    BatchGroup* group = TakeGroup();
    if (!group) break;
    ahead_.push_back(group);
    next = FindNext();
  }
  return next;
}

bool InputQueue::HasNext() const {
  if (!failed_.ok() || FindNext()) return true;
  std::lock_guard lock(mu_);
  return FrontIsReady();
}

// Whether TakeGroup need not wait. Call it with mu_ held.
bool InputQueue::FrontIsReady() const {
  if (!in_order_.empty()) return in_order_.front()->ready;
  return !drawing_ && (ended_ || !stream_error_.ok());
}

// Waits for the next group. Null at the end, or after an error, which is stored in failed_.
BatchGroup* InputQueue::TakeGroup() {
  // Includes the wait for the lock, which input threads hold while they draw records.
  TRACE_SCOPE("input_wait", profiler::Cat::kInput);
  std::unique_lock lock(mu_);
  const auto ready = [&] { return FrontIsReady(); };
  if (!ready()) {
    const double begin_s = NowSeconds();
    while (!ready_.wait_for(lock, kStopPollPeriod, ready)) {
      if (!options_.should_stop || !options_.should_stop()) continue;
      failed_ = Cancelled("stopped while waiting for input");
      return nullptr;
    }
    stats_.caller_wait_seconds += NowSeconds() - begin_s;
  }
  if (in_order_.empty()) {
    failed_ = stream_error_;
    return nullptr;
  }
  return TakeFront();
}

// Takes the oldest group, which must be ready. Call it with mu_ held.
BatchGroup* InputQueue::TakeFront() {
  profiler::TraceCounter(options_.for_evaluation ? "evaluation_groups_ready" : "groups_ready",
                         std::count_if(in_order_.begin(), in_order_.end(),
                                       [](const BatchGroup* group) { return group->ready; }));
  BatchGroup* group = in_order_.front();
  in_order_.pop_front();
  in_order_bytes_ -= group->bytes;
  stats_.batches += group->count;
  for (size_t b = 0; b < group->count; ++b) stats_.rows += group->batches[b].rows.batch.rows();
  work_.notify_one();  // room for a group
  return group;
}

InputStats InputQueue::stats() const {
  std::lock_guard lock(mu_);
  InputStats stats = stats_;
  stats.bytes_read = stream_.bytes_read();
  for (const BatchGroup* group : in_order_) stats.batches_ready += group->ready ? group->count : 0;
  stats.shuffle_size = buffer_.size();
  stats.block_bytes_held = pool_.held_bytes();
  stats.bytes_cached = stream_.bytes_cached();
  return stats;
}

CorruptionStats InputQueue::corruption() const {
  std::unique_lock lock(mu_);
  CorruptionStats corruption = stream_.corruption(), rows = row_corruption_;
  const BadRow first = first_skipped_;
  lock.unlock();
  if (rows.events > 0) rows.first = Message(first);
  corruption.Merge(rows);
  return corruption;
}

std::string InputQueue::Message(const BadRow& bad) const {
  const Framing framing = FramingOf(options_.format);
  // A text file whose first line is bad may have another format.
  const bool at_begin =
      framing != Framing::kTfRecord && framing != Framing::kTable && bad.origin.offset == 0;
  return LocationText(bad.origin, framing) + bad.what.message() +
         (at_begin ? DescribeFile(*bad.origin.path, InputFormatName(options_.format)) : "");
}

}  // namespace millrace::io
