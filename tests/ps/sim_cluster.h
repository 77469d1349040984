// A whole job in one process and, at any moment, one thread: shards, workers and a network that
// delays, drops, repeats and breaks, all drawn from one seed. A failure replays from its seed.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "io/base/random.h"
#include "ps/server/exchange_job.h"
#include "ps/server/shard.h"
#include "ps/worker/channel.h"
#include "ps/worker/clock.h"

namespace millrace::ps::test {

struct SimFaults {
  double lose_request = 0;  // the connection breaks before the server hears
  double lose_reply = 0;    // the server heard, the worker does not
  double repeat = 0;        // the server hears twice
};

class SimCluster : public Clock {
 public:
  SimCluster(uint64_t seed, size_t shards, size_t workers, const SimFaults& faults)
      : faults_(faults), random_(seed), waiting_for_turn_(workers), running_(workers, true) {
    for (size_t s = 0; s < shards; ++s) {
      shards_.push_back(std::make_unique<Shard>(
          ShardOptions{.shard = s, .num_shards = shards, .num_workers = workers}));
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

  // Somebody goes on; perhaps the caller.
  void Yield(size_t worker) {
    {
      std::lock_guard lock(mu_);
      now_ns_ += 10000 + static_cast<int64_t>(random_.Below(1000000));
      for (auto& shard : shards_) shard->Tick(now_ns_);
      PassOn();
    }
    WaitTurn(worker);
  }

  bool Happens(double probability) {
    std::lock_guard lock(mu_);
    return random_.Uniform() < probability;
  }

  int64_t NowNs() override {
    std::lock_guard lock(mu_);
    return now_ns_;
  }
  // Time passes; whose turn it is stays.
  void Pause(int64_t ns) override {
    std::lock_guard lock(mu_);
    now_ns_ += ns;
  }

  Shard& shard(size_t s) { return *shards_[s]; }
  size_t shards() const { return shards_.size(); }
  const SimFaults& faults() const { return faults_; }

 private:
  static constexpr size_t kNobody = ~size_t{0};

  void WaitTurn(size_t worker) {
    std::unique_lock lock(mu_);
    waiting_for_turn_[worker].wait(lock, [&] { return turn_ == worker && started_; });
  }
  void PassOn() {
    std::vector<size_t> who;
    for (size_t w = 0; w < running_.size(); ++w) {
      if (running_[w]) who.push_back(w);
    }
    turn_ = who.empty() ? kNobody : who[random_.Below(who.size())];
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
  std::vector<std::unique_ptr<Shard>> shards_;
};

// A worker's connection to a shard.
class SimChannel final : public Channel {
 public:
  SimChannel(SimCluster& cluster, size_t worker, size_t shard)
      : cluster_(cluster), worker_(worker), shard_(cluster.shard(shard)), job_(worker) {}
  ~SimChannel() override {
    if (generation_ > 0) shard_.Disconnected(worker_, generation_, cluster_.NowNs());
  }

  Status Join(const JoinRequest& request, JoinReply& reply) override {
    cluster_.Yield(worker_);
    auto generation = shard_.Join(worker_, request.name, request.config, request.rejoin);
    RETURN_IF_ERROR(generation.status());
    generation_ = reply.generation = *generation;
    reply.instance = 1;
    return {};
  }
  Status Start(bool open, StartReply& reply) override {
    if (open) RETURN_IF_ERROR(shard_.Open(worker_));
    cluster_.Yield(worker_);
    reply.waiting = shard_.StartWaitsFor();
    reply.sequence = shard_.worker(worker_).received;
    reply.state = shard_.worker(worker_).received_state;
    reply.step = shard_.progress().step;
    return {};
  }

  Status SendExchange(const ExchangeRequest& request) override {
    request_ = request;
    strings_ = {std::string(request.push_keys), std::string(request.gradient),
                std::string(request.state), std::string(request.pull_keys),
                std::string(request.next_keys)};
    request_.push_keys = strings_[0];
    request_.gradient = strings_[1];
    request_.state = strings_[2];
    request_.pull_keys = strings_[3];
    request_.next_keys = strings_[4];
    // Some servers hear at once, others when the worker waits for the answer: one that dies in
    // between has been heard by some.
    if (!cluster_.Happens(0.5)) return {};
    const bool heard = shard_.CheckCaller(worker_, generation_).ok() &&
                       job_.FindLists(shard_, request_) &&
                       job_.Decode(request_, shard_.local_features()).ok();
    return heard ? job_.Take(shard_, request_, cluster_.NowNs()) : Status();
  }
  Status ReceiveExchange(ExchangeReply& reply) override {
    cluster_.Yield(worker_);
    if (cluster_.Happens(cluster_.faults().lose_request)) return Broken();
    RETURN_IF_ERROR(Handle(reply));
    if (reply.outcome == Outcome::kDone && cluster_.Happens(cluster_.faults().repeat)) {
      RETURN_IF_ERROR(Handle(reply));
    }
    if (cluster_.Happens(cluster_.faults().lose_reply)) return Broken();
    return {};
  }

  Status Stop() override { return shard_.Stop(worker_); }
  Status Finish() override {
    shard_.Finish(worker_, cluster_.NowNs());
    return {};
  }
  Status Drained(std::string& waiting) override {
    cluster_.Yield(worker_);
    waiting = shard_.DrainWaitsFor();
    return shard_.failed();
  }
  Status Leave() override {
    shard_.Leave(worker_, cluster_.NowNs());
    return {};
  }
  Status Checkpoint(uint64_t, const std::string&, bool&) override { return Unused(); }
  Status Restore(uint64_t, bool&) override { return Unused(); }
  Status ChiefState(std::string&) override { return Unused(); }
  Status Entries(int64_t, EntriesReply&) override { return Unused(); }
  Status Load(const std::string&) override { return Unused(); }
  Status Stats(StatsReply&) override { return {}; }
  Status InitDense(const DenseCall&) override { return Unused(); }
  Status PushDense(const DenseCall&) override { return Unused(); }
  Status PullDense(const DenseCall&, DenseReply&) override { return Unused(); }
  uint64_t bytes_sent() const override { return 0; }
  uint64_t bytes_received() const override { return 0; }

 private:
  static constexpr int kPatience = 20;  // turns until a call is answered with "waiting"

  static Status Unused() { return Invalid("the simulation does not use this"); }
  static Status Broken() { return Status(Code::kIo, "the network broke"); }

  // As the server does it.
  Status Handle(ExchangeReply& reply) {
    reply = {};
    RETURN_IF_ERROR(shard_.CheckCaller(worker_, generation_));
    if (!job_.FindLists(shard_, request_)) {
      reply.outcome = Outcome::kUnknownList;
      return {};
    }
    RETURN_IF_ERROR(job_.Decode(request_, shard_.local_features()));
    RETURN_IF_ERROR(job_.Take(shard_, request_, cluster_.NowNs()));
    for (int turns = 0; !job_.Ready(shard_, request_); ++turns) {
      if (!shard_.failed().ok()) return Cancelled(shard_.failed().message());
      if (turns == kPatience) {
        reply.outcome = Outcome::kWaiting;
        reply.waiting = shard_.AnswerWaitsFor(worker_);
        return {};
      }
      cluster_.Yield(worker_);
      RETURN_IF_ERROR(shard_.CheckCaller(worker_, generation_));
    }
    RETURN_IF_ERROR(job_.Answer(shard_, request_, reply));
    RETURN_IF_ERROR(job_.Encode(request_, false, reply));
    LookAhead();
    return {};
  }

  // Most times: a server may be at a checkpoint, or another worker may come first.
  void LookAhead() {
    if (cluster_.Happens(0.1)) return;
    EXPECT_TRUE(job_.DecodeNext(request_, shard_.local_features()).ok());
    if (!job_.looks_ahead() || cluster_.Happens(0.1)) return;
    EXPECT_TRUE(job_.LookAhead(shard_).ok());
  }

  SimCluster& cluster_;
  size_t worker_;
  Shard& shard_;
  ExchangeJob job_;
  uint64_t generation_ = 0;
  ExchangeRequest request_;
  std::vector<std::string> strings_;
};

// A worker's network.
class SimTransport final : public Transport {
 public:
  SimTransport(SimCluster& cluster, size_t worker) : cluster_(cluster), worker_(worker) {}
  size_t shards() const override { return cluster_.shards(); }
  std::string Describe(size_t shard) const override { return "server " + std::to_string(shard); }
  Result<std::unique_ptr<Channel>> Connect(size_t shard) override {
    return std::unique_ptr<Channel>(std::make_unique<SimChannel>(cluster_, worker_, shard));
  }

 private:
  SimCluster& cluster_;
  size_t worker_;
};

}  // namespace millrace::ps::test
