// SPDX-License-Identifier: Apache-2.0
// The server's side of one worker's connection, call by call, without any transport: Thrift calls
// it through Connection, the simulation directly.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/base/pod_vector.h"
#include "io/base/status.h"
#include "ps/number_layout.h"
#include "ps/server/exchange_handler.h"
#include "ps/server/shard_access.h"
#include "ps/wire/entry_codec.h"
#include "ps/wire/float_codec.h"
#include "ps/wire/messages.h"

namespace millrace::ps {

// parameter_server.thrift says what each call means. Replies are replaced. Join comes first; a
// reply with `blocked_on`, or `done` false, asks for the same call again. Errors: kInvalid and
// kCorrupt if a call is refused, others if the job has failed. An exception, such as
// std::bad_alloc, ends the process: a push may be applied in part, and Thrift would take the
// exception for a reply. Not thread-safe.
class WorkerHandler {
 public:
  // `access` outlives the handler.
  explicit WorkerHandler(ShardAccess& access) : access_(access) {}
  // Without Leave, the shard takes the worker for lost.
  ~WorkerHandler();
  WorkerHandler(const WorkerHandler&) = delete;
  WorkerHandler& operator=(const WorkerHandler&) = delete;

  bool joined() const { return exchange_ != nullptr; }
  size_t worker() const { return worker_; }
  uint64_t generation() const { return generation_; }
  // What the job's lists of keys have in an exchange. Valid after Join.
  const NumberLayout& batch_layout() const { return batch_layout_; }

  Status Join(const JoinRequest& request, JoinReply& reply) noexcept;
  Status Start(bool open, StartReply& reply) noexcept;
  // The reply's weights stay valid until the next call.
  Status Exchange(const ExchangeRequest& request, ExchangeReply& reply) noexcept;
  // See ExchangeHandler::Accept.
  Status AcceptExchange(const ExchangeRequest& request, ExchangeReply& reply) noexcept;
  Status Stop() noexcept;
  Status Finish() noexcept;
  Status AllFinished(uint64_t until_examples, AllFinishedReply& reply) noexcept;
  Status Leave() noexcept;

  Status InitDense(const DenseRequest& request, DenseReply& reply) noexcept;
  Status PushDense(const DenseRequest& request, DenseReply& reply) noexcept;
  Status PullDense(const DenseRequest& request, DenseReply& reply) noexcept;

  Status HoldPushes(const HoldRequest& request, HoldReply& reply) noexcept;
  Status Checkpoint(const CheckpointRequest& request, bool& done) noexcept;
  Status Restore(const RestoreRequest& request, bool& done) noexcept;
  Status Restored(RestoredReply& reply) noexcept;
  Status PlaceWorkers(const std::vector<std::string>& states) noexcept;
  Status Entries(int64_t first, EntriesReply& reply) noexcept;
  Status Load(const std::string& entries) noexcept;
  // All but the counts of calls.
  Status Stats(StatsReply& reply) noexcept;

 private:
  // With the lock: waits until the shard is free (kBusy if it is not in time), then checks that the
  // worker may call and the job has not failed.
  Status Enter();
  // The same for calls that only the chief may make.
  Status EnterChief(const char* what);
  // With the lock: fills pieces_.
  void EncodePieces();
  // With the lock. `id` tells different pieces of work apart.
  Status RunLong(uint64_t id, std::function<Status(Shard&)> work, bool& done);
  // Decodes the request's numbers into dense_. `reply` says so if the shard is busy.
  Status EnterDense(ShardLock& lock, const DenseRequest& request, DenseReply& reply);
  Status DecodeDense(ShardLock& lock, const DenseRequest& request);

  ShardAccess& access_;
  size_t worker_ = 0;
  uint64_t generation_ = 0;
  NumberLayout batch_layout_;
  std::unique_ptr<ExchangeHandler> exchange_;  // null before Join and after Leave
  std::vector<std::string> pieces_;            // of the model, encoded, while it is being read
  FloatCodec floats_;
  PodVector<float> dense_;
};

}  // namespace millrace::ps
