// SPDX-License-Identifier: Apache-2.0
// A whole job in one process, with one running worker at any time: shards, workers, and a network
// that delays, drops, repeats and corrupts messages and breaks connections, all drawn from one
// seed. A failure replays from its seed. The server side is the shipped one (WorkerHandler,
// ExchangeHandler, Shard); only locks, time and the network are simulated. A message that is
// corrupted travels in the shipped frame (MessageTransport).
#pragma once

#include <gtest/gtest.h>
#include <thrift/transport/TBufferTransports.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "io/base/random.h"
#include "ps/server/shard_access.h"
#include "ps/server/worker_handler.h"
#include "ps/wire/exchange_wire.h"
#include "ps/worker/transport.h"

namespace millrace::ps::test {

struct SimFaults {
  double lose_request = 0;  // the connection breaks before the server receives the call
  double lose_reply = 0;    // the server has handled the call, the worker gets no reply
  double corrupt = 0;       // bits of a request or of a reply flip on their way
  double repeat = 0;        // the server receives the call twice
  double slow_disk = 0;     // others get turns while a checkpoint is being written
};

class SimCluster;

// A shard whose users take turns. Waiting gives the turn away; so does Unlock, now and then.
class SimShard final : public ShardAccess {
 public:
  SimShard(SimCluster& cluster, ShardOptions options)
      : cluster_(cluster), shard_(WithSlowDisk(std::move(options))) {}

  void lock() override { mu_.lock(); }
  void unlock() override { mu_.unlock(); }
  Shard& shard() override {
    CHECK(!busy_);
    return shard_;
  }
  int64_t NowNs() override;
  bool busy() const override { return busy_; }
  bool shutting_down() const override { return false; }
  bool WaitUntilFree() override;
  bool WaitUntil(const std::function<bool()>& ready) override;
  void NotifyAll() override {}
  std::optional<Status> RunLong(uint64_t id, std::function<Status(Shard&)> work) override;

 private:
  static constexpr int kPatience = 20;  // turns until a call replies that it is blocked

  ShardOptions WithSlowDisk(ShardOptions options);
  std::vector<float> Numbers() const;
  // Without the lock meanwhile.
  void GiveTurn();

  SimCluster& cluster_;
  std::mutex mu_;  // the threads of a worker's dense store call different shards at once
  Shard shard_;
  bool busy_ = false;
};

class SimCluster : public Clock {
 public:
  // `checkpoints`: a folder in which each shard has its own; empty: none can be written.
  SimCluster(uint64_t seed, size_t shards, size_t workers, const SimFaults& faults,
             const std::string& checkpoints = "")
      : faults_(faults), random_(seed), waiting_for_turn_(workers), running_(workers, true) {
    for (size_t s = 0; s < shards; ++s) {
      const std::string folder =
          checkpoints.empty() ? "" : checkpoints + "/shard-" + std::to_string(s);
      shards_.push_back(std::make_unique<SimShard>(*this, ShardOptions{.shard = s,
                                                                       .num_shards = shards,
                                                                       .num_workers = workers,
                                                                       .instance = seed + 1,
                                                                       .checkpoints = folder}));
    }
  }

  // Runs `work(worker)` for all workers to the end, one at a time.
  void Run(const std::function<void(size_t worker)>& work) {
    std::vector<std::jthread> threads;
    for (size_t w = 0; w < running_.size(); ++w) {
      threads.emplace_back([this, w, &work] {
        WaitTurn(w);
        work(w);
        std::lock_guard lock(mu_);
        running_[w] = false;
        PassOn();
      });
    }
    std::lock_guard lock(mu_);
    started_ = true;
    PassOn();
  }

  // A worker, perhaps the caller, has the next turn.
  void Yield(size_t worker) {
    {
      std::lock_guard lock(mu_);
      now_ns_ += 10000 + static_cast<int64_t>(random_.Below(1000000));
    }
    for (auto& shard : shards_) {
      const ShardLock lock(*shard);
      if (!shard->busy()) shard->shard().Tick(NowNs());
    }
    {
      std::lock_guard lock(mu_);
      PassOn();
    }
    WaitTurn(worker);
  }
  // The same for the worker that has the turn.
  void Yield() { Yield(turn()); }

  bool Happens(double probability) {
    std::lock_guard lock(mu_);
    return random_.Uniform() < probability;
  }

  uint64_t Below(uint64_t limit) {
    std::lock_guard lock(mu_);
    return random_.Below(limit);
  }

  int64_t NowNs() override {
    std::lock_guard lock(mu_);
    return now_ns_;
  }
  // Time passes; the turn stays.
  void Pause(int64_t ns) override {
    std::lock_guard lock(mu_);
    now_ns_ += ns;
  }

  // Flips one to three bits of the message that `send` sends. The receiver must not deliver any of
  // it.
  void SendCorrupted(const std::function<void(MessageProtocol&)>& send) {
    const auto wire = std::make_shared<apache::thrift::transport::TMemoryBuffer>();
    MessageProtocol out(std::make_shared<MessageTransport>(wire), kMaxString, kMaxContainer);
    send(out);
    std::string frame = wire->getBufferAsString();
    for (uint64_t flips = 1 + Below(3), first = Below(8 * frame.size()); flips > 0; --flips) {
      const uint64_t bit = (first + flips * 37) % (8 * frame.size());
      frame[bit / 8] = static_cast<char>(frame[bit / 8] ^ (1 << bit % 8));
    }
    wire->resetBuffer(reinterpret_cast<uint8_t*>(frame.data()),
                      static_cast<uint32_t>(frame.size()));
    MessageTransport receiver(wire);
    uint8_t byte = 0;
    EXPECT_THROW(receiver.readAll(&byte, 1), apache::thrift::transport::TTransportException)
        << "a corrupted message was delivered";
    std::lock_guard lock(mu_);
    ++corrupted_;
  }
  // Messages that were corrupted.
  uint64_t corrupted() {
    std::lock_guard lock(mu_);
    return corrupted_;
  }

  // Called instead of giving turns away, if set.
  std::function<void()> while_saving;

  SimShard& access(size_t s) { return *shards_[s]; }
  Shard& shard(size_t s) { return shards_[s]->shard(); }
  size_t shards() const { return shards_.size(); }
  const SimFaults& faults() const { return faults_; }

 private:
  static constexpr size_t kNobody = ~size_t{0};
  static constexpr int kMaxString = 1 << 20, kMaxContainer = 1 << 10;

  size_t turn() {
    std::lock_guard lock(mu_);
    return turn_;
  }
  void WaitTurn(size_t worker) {
    std::unique_lock lock(mu_);
    waiting_for_turn_[worker].wait(lock, [&] { return turn_ == worker && started_; });
  }
  void PassOn() {
    std::vector<size_t> candidates;
    for (size_t w = 0; w < running_.size(); ++w) {
      if (running_[w]) candidates.push_back(w);
    }
    turn_ = candidates.empty() ? kNobody : candidates[random_.Below(candidates.size())];
    if (turn_ != kNobody) waiting_for_turn_[turn_].notify_all();
  }

  SimFaults faults_;
  std::mutex mu_;
  Random random_;
  std::vector<std::condition_variable> waiting_for_turn_;
  std::vector<bool> running_;
  bool started_ = false;
  size_t turn_ = kNobody;
  int64_t now_ns_ = 1000000000;
  uint64_t corrupted_ = 0;
  std::vector<std::unique_ptr<SimShard>> shards_;
};

inline int64_t SimShard::NowNs() { return cluster_.NowNs(); }

inline void SimShard::GiveTurn() {
  mu_.unlock();
  cluster_.Yield();
  mu_.lock();
}

inline bool SimShard::WaitUntilFree() {
  for (int turns = 0; busy_ && turns < kPatience; ++turns) GiveTurn();
  return !busy_;
}

inline bool SimShard::WaitUntil(const std::function<bool()>& ready) {
  const auto done = [&] { return !busy_ && (ready() || !shard_.failed().ok()); };
  for (int turns = 0; !done() && turns < kPatience; ++turns) GiveTurn();
  return !busy_;
}

// The other workers continue meanwhile, and find the shard busy.
inline std::optional<Status> SimShard::RunLong(uint64_t, std::function<Status(Shard&)> work) {
  if (busy_) return std::nullopt;
  busy_ = true;
  for (int turns = 0; turns < kPatience && cluster_.Happens(0.8); ++turns) GiveTurn();
  const uint64_t step = shard_.progress().step;
  const std::vector<float> before = Numbers();
  const bool restores = !shard_.StartBlockedOn().empty();
  const Status status = work(shard_);
  if (!restores) {
    EXPECT_EQ(shard_.progress().step, step) << "a step was made while a checkpoint was written";
    EXPECT_EQ(Numbers(), before) << "the model changed while a checkpoint was written";
  }
  busy_ = false;
  return status;
}

inline ShardOptions SimShard::WithSlowDisk(ShardOptions options) {
  options.while_saving = [this] {
    if (cluster_.while_saving) return cluster_.while_saving();
    while (cluster_.Happens(cluster_.faults().slow_disk)) GiveTurn();
  };
  return options;
}

inline std::vector<float> SimShard::Numbers() const {
  std::vector<float> all;
  shard_.store().ForEach([&](uint64_t, std::span<const float> slot) {
    all.insert(all.end(), slot.begin(), slot.end());
  });
  return all;
}

// A worker's connection to a shard, with faults.
class SimChannel final : public Channel {
 public:
  SimChannel(SimCluster& cluster, size_t worker, size_t shard)
      : cluster_(cluster),
        worker_(worker),
        handler_(std::make_unique<WorkerHandler>(cluster.access(shard))) {}

  Status Join(const JoinRequest& request, JoinReply& reply) override {
    return Call("join", [&] { return handler_->Join(request, reply); });
  }
  Status Start(bool open, StartReply& reply) override {
    return Call("start", [&] { return handler_->Start(open, reply); });
  }

  Status SendExchange(const ExchangeRequest& request) override {
    request_ = request;
    strings_ = {std::string(request.push_keys), std::string(request.gradient),
                std::string(request.state), std::string(request.pull_keys)};
    request_.push_keys = strings_[0];
    request_.gradient = strings_[1];
    request_.state = strings_[2];
    request_.pull_keys = strings_[3];
    // Some servers receive the request immediately, others when the worker waits for the reply: a
    // worker that crashes in between has reached only some of them.
    arrived_ = false;
    if (!handler_ || !cluster_.Happens(0.5)) return {};
    if (!ExchangeArrives()) return {};
    ExchangeReply ignored;
    return FailedAsSent(handler_->AcceptExchange(request_, ignored));
  }
  Status ReceiveExchange(ExchangeReply& reply) override {
    cluster_.Yield(worker_);
    if (!handler_ || cluster_.Happens(cluster_.faults().lose_request)) return Broken();
    if (!arrived_ && !ExchangeArrives()) return Broken();
    reply = {};
    RETURN_IF_ERROR(FailedAsSent(handler_->Exchange(request_, reply)));
    if (reply.outcome == Outcome::kDone && cluster_.Happens(cluster_.faults().repeat)) {
      reply = {};
      RETURN_IF_ERROR(FailedAsSent(handler_->Exchange(request_, reply)));
    }
    return ReplyArrives([&](MessageProtocol& out) {
      out.writeMessageBegin("exchange", apache::thrift::protocol::T_REPLY, 0);
      WriteExchangeResult(reply, out);
      out.transport().flush();
    });
  }

  Status Stop() override {
    return Call("stop", [&] { return handler_->Stop(); });
  }
  Status Finish() override {
    return Call("finish", [&] { return handler_->Finish(); });
  }
  Status AllFinished(uint64_t until_examples, AllFinishedReply& reply) override {
    return Call("all_finished", [&] { return handler_->AllFinished(until_examples, reply); });
  }
  Status Leave() override {
    return Call("leave", [&] { return handler_->Leave(); });
  }
  Status HoldPushes(const HoldRequest& request, HoldReply& reply) override {
    return Call("hold_pushes", [&] { return handler_->HoldPushes(request, reply); });
  }
  Status Checkpoint(const CheckpointRequest& request, bool& done) override {
    return Call("checkpoint", [&] { return handler_->Checkpoint(request, done); });
  }
  Status Restore(const RestoreRequest& request, bool& done) override {
    return Call("restore", [&] { return handler_->Restore(request, done); });
  }
  Status Restored(RestoredReply& reply) override {
    return Call("restored", [&] { return handler_->Restored(reply); });
  }
  Status PlaceWorkers(const std::vector<std::string>& states) override {
    return Call("place_workers", [&] { return handler_->PlaceWorkers(states); });
  }
  Status Entries(int64_t first, EntriesReply& reply) override {
    return Call("entries", [&] { return handler_->Entries(first, reply); });
  }
  Status Load(const std::string& entries) override {
    return Call("load", [&] { return handler_->Load(entries); });
  }
  Status Stats(StatsReply& reply) override {
    return Call("stats", [&] { return handler_->Stats(reply); });
  }
  Status InitDense(const DenseRequest& request, DenseReply& reply) override {
    return Call("init_dense", [&] { return handler_->InitDense(request, reply); });
  }
  Status PushDense(const DenseRequest& request, DenseReply& reply) override {
    return Call("push_dense", [&] { return handler_->PushDense(request, reply); });
  }
  Status PullDense(const DenseRequest& request, DenseReply& reply) override {
    return Call("pull_dense", [&] { return handler_->PullDense(request, reply); });
  }
  uint64_t bytes_sent() const override { return 0; }
  uint64_t bytes_received() const override { return 0; }

 private:
  static Status Broken() { return Status(Code::kIo, "the network broke"); }
  // A worker gets kFailed for a failed job, whatever the cause.
  static Status FailedAsSent(const Status& status) {
    return status.code() == Code::kIo ? Failed(status.message()) : status;
  }

  using Send = std::function<void(MessageProtocol&)>;

  // A server that receives a corrupted request closes the connection.
  bool RequestArrives(const Send& send) {
    if (!cluster_.Happens(cluster_.faults().corrupt)) return true;
    cluster_.SendCorrupted(send);
    handler_.reset();
    return false;
  }
  bool ExchangeArrives() {
    arrived_ = RequestArrives([&](MessageProtocol& out) { ps::SendExchange(request_, out); });
    return arrived_;
  }
  Status ReplyArrives(const Send& send) {
    if (cluster_.Happens(cluster_.faults().lose_reply)) return Broken();
    if (!cluster_.Happens(cluster_.faults().corrupt)) return {};
    cluster_.SendCorrupted(send);
    return Corrupt("a corrupted message");
  }

  // Any call but an exchange.
  template <typename Function>
  Status Call(const char* name, Function call) {
    cluster_.Yield(worker_);
    const auto send = [&](MessageProtocol& out) {
      out.writeMessageBegin(name, apache::thrift::protocol::T_CALL, 0);
      out.transport().flush();
    };
    if (!handler_ || cluster_.Happens(cluster_.faults().lose_request)) return Broken();
    if (!RequestArrives(send)) return Broken();
    RETURN_IF_ERROR(FailedAsSent(call()));
    return ReplyArrives(send);
  }

  SimCluster& cluster_;
  size_t worker_;
  std::unique_ptr<WorkerHandler> handler_;  // null: the server has closed the connection
  ExchangeRequest request_;
  std::vector<std::string> strings_;
  bool arrived_ = false;  // request_
};

// A worker's network.
class SimTransport final : public Transport {
 public:
  SimTransport(SimCluster& cluster, size_t worker) : cluster_(cluster), worker_(worker) {}
  size_t shards() const override { return cluster_.shards(); }
  std::string Describe(size_t shard) const override { return "server " + std::to_string(shard); }
  // A server exits when all workers have left.
  Result<std::unique_ptr<Channel>> Connect(size_t shard) override {
    SimShard& server = cluster_.access(shard);
    const ShardLock lock(server);
    if (!server.busy() && server.shard().done()) return Status(Code::kIo, "connection refused");
    return std::unique_ptr<Channel>(std::make_unique<SimChannel>(cluster_, worker_, shard));
  }

 private:
  SimCluster& cluster_;
  size_t worker_;
};

}  // namespace millrace::ps::test
