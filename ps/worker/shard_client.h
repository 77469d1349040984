// SPDX-License-Identifier: Apache-2.0
// A worker's end of the connection to one shard: makes calls again on a new connection when one
// breaks, and gives up when the shard cannot be reached for some seconds.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "io/base/status.h"
#include "ps/worker/transport.h"

namespace millrace::ps {

// The time that a step under way still gets after the caller was asked to stop. It begins when
// `should_stop` is first seen to be true. Thread-safe where `should_stop` and the clock are.
class StopGrace {
 public:
  // The chief gives up first, before servers give up on a lost worker, and ends the job for all.
  StopGrace(Clock& clock, size_t worker, std::function<bool()> should_stop)
      : clock_(clock),
        grace_ns_((worker == 0 ? 1 : 4) * kChiefNs),
        should_stop_(std::move(should_stop)) {}

  bool over();

 private:
  static constexpr int64_t kChiefNs = int64_t{2500} * 1000000;

  Clock& clock_;
  int64_t grace_ns_;
  std::function<bool()> should_stop_;
  std::atomic<int64_t> asked_ns_ = 0;  // 0: not yet
};

// How a worker behaves while it waits for servers and for other workers.
struct WaitOptions {
  double reconnect_s = 2;  // how long a lost server is tried again; 0 to 1,000,000
  int64_t first_join_ns = int64_t{60} * 1000000000;  // the server may still have to start
  std::function<void(const std::string&)> on_note = nullptr;
  std::function<bool()> should_stop = nullptr;

  Status Validate() const;
};

// Counts of one shard's exchanges.
struct WireStats {
  uint64_t exchanges = 0;  // without repeats
  uint64_t repeats = 0;    // calls that had to be made again
  uint64_t reconnects = 0;
  uint64_t corrupt = 0;                                 // replies with a wrong checksum
  uint64_t predicted_sent = 0, predicted_received = 0;  // by the layout of the messages
  uint64_t sent = 0, received = 0;                      // by the sockets, exchanges only
  int64_t wait_ns = 0;                                  // for replies
  int64_t barrier_ns = 0;  // the part of wait_ns in which the server waited for other workers
  int64_t server_ns = 0;   // the part of wait_ns in which the server worked

  void Add(const WireStats& other);
};

// Not thread-safe.
class ShardClient {
 public:
  // All references outlive the client.
  ShardClient(Transport& transport, Clock& clock, size_t shard, const JoinRequest& join,
              const WaitOptions& wait, StopGrace& stop_grace)
      : transport_(transport),
        clock_(clock),
        shard_(shard),
        join_(join),
        wait_(wait),
        stop_grace_(stop_grace) {}

  // The first connection.
  Status Connect(JoinReply& reply);

  // `request` and its views must stay unchanged until its reply is there. A key list that the
  // server should know is sent only if the server asks for it.
  Status Send(const ExchangeRequest& request, bool push_list_known, bool pull_list_known);
  // The reply, or one of outcome kBlocked: then the request was sent again, and the caller may
  // receive from other shards first. The times in `reply` are sums over all repeats.
  Status Receive(ExchangeReply& reply);
  // Shards wait at the same time: a step's waiting time counts for what the slowest shard reports.
  // Called for that shard only.
  void CountCause(int64_t wait_ns, const ExchangeReply& reply);

  // Any other call: `call(channel)`, repeated on a new connection where one breaks.
  Status Call(const std::function<Status(Channel&)>& call);

  std::string Describe() const { return transport_.Describe(shard_); }
  const WireStats& stats() const { return stats_; }

 private:
  // Whether the call can be made again on a new connection. Counts a corrupt reply.
  bool IsBroken(const Status& status);
  Status Reconnect(const Status& why);
  Status TryJoin(JoinReply& reply, bool again);
  Status SendNow(bool with_push_keys, bool with_pull_keys);
  // SendNow with all keys, on a new connection where one breaks.
  Status SendAgain(Status status);
  bool ShouldStop() const { return wait_.should_stop && wait_.should_stop(); }
  void CountBytes();
  void NoteBlocked(const std::string& blocked_on);

  Transport& transport_;
  Clock& clock_;
  size_t shard_;
  const JoinRequest& join_;
  const WaitOptions& wait_;
  StopGrace& stop_grace_;
  std::unique_ptr<Channel> channel_;
  uint64_t instance_ = 0;
  ExchangeRequest request_;                 // in flight
  int64_t barrier_ns_ = 0, server_ns_ = 0;  // of its replies so far
  WireStats stats_;
  uint64_t sent_before_ = 0, received_before_ = 0;  // of the channel, at the last count
  int64_t noted_ns_ = 0;
  int broken_ = 0;          // connections since the last reply
  bool in_flight_ = false;  // an exchange, on this channel
  uint64_t attempts_ = 0;   // to join
};

}  // namespace millrace::ps
