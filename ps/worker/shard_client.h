// A worker's end of its talk with one shard: makes calls again on a new connection when one breaks,
// and gives up when the shard cannot be reached for some seconds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "io/base/status.h"
#include "ps/worker/channel.h"
#include "ps/worker/clock.h"

namespace millrace::ps {

struct ClientOptions {
  JoinRequest join;
  int64_t give_up_ns = int64_t{2} * 1000000000;      // without a connection
  int64_t first_join_ns = int64_t{60} * 1000000000;  // the server may still have to start
  std::function<void(const std::string&)> on_note = nullptr;
  std::function<bool()> should_stop = nullptr;  // asked while it waits for a server
  std::function<bool()> gives_up = nullptr;     // asked while it waits for other workers
};

// Counts of one shard's exchanges.
struct WireStats {
  uint64_t exchanges = 0;  // the first try of each
  uint64_t repeats = 0;    // calls that had to be made again
  uint64_t reconnects = 0;
  uint64_t predicted_sent = 0, predicted_received = 0;  // by the layout of the messages
  uint64_t sent = 0, received = 0;                      // by the sockets, exchanges only
  int64_t wait_ns = 0;                                  // for answers
  int64_t barrier_ns = 0;                               // of it, the server for other workers
  int64_t server_ns = 0;                                // of it, the server at work

  void Add(const WireStats& other);
};

// Not thread-safe.
class ShardClient {
 public:
  ShardClient(Transport& transport, Clock& clock, size_t shard, ClientOptions options)
      : transport_(transport), clock_(clock), shard_(shard), options_(std::move(options)) {}

  // The first connection.
  Status Connect(JoinReply& reply);

  // `request` and what its views show must stay as they are until Receive is over. A key list
  // that the server should know is sent only if it turns out not to.
  Status Send(const ExchangeRequest& request, bool push_list_known, bool pull_list_known);
  // `reply` tells the server's times over all tries.
  Status Receive(ExchangeReply& reply);
  // Shards wait side by side: a step's waiting is what the slowest one says it was for. To be
  // called for that one alone.
  void CountCause(int64_t wait_ns, const ExchangeReply& reply);

  // Any other call: `call(channel)`, again on a new connection where one breaks.
  Status Call(const std::function<Status(Channel&)>& call);

  std::string Describe() const { return transport_.Describe(shard_); }
  const WireStats& stats() const { return stats_; }

 private:
  Status Reconnect(const Status& why);
  Status TryJoin(JoinReply& reply, bool again);
  Status SendNow(bool with_push_keys, bool with_pull_keys);
  void CountBytes();
  void NoteWaiting(const std::string& whom);

  Transport& transport_;
  Clock& clock_;
  size_t shard_;
  ClientOptions options_;
  std::unique_ptr<Channel> channel_;
  uint64_t instance_ = 0;
  ExchangeRequest request_;  // in flight
  WireStats stats_;
  uint64_t sent_before_ = 0, received_before_ = 0;  // of the channel, at the last count
  int64_t noted_ns_ = 0;
  int broken_ = 0;         // connections since the last answer
  bool awaiting_ = false;  // an answer to an exchange, on this channel
  uint64_t attempts_ = 0;  // to join
};

}  // namespace millrace::ps
