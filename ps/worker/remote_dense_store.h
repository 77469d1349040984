// Dense parameters on the servers of a job: a net's layers, cut into blocks (dense_cut.h) so that
// the shards have even parts.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "io/base/pod_vector.h"
#include "io/base/status.h"
#include "ps/worker/remote_store.h"
#include "sparse/dense_store.h"

namespace millrace::ps {

// A parameter's gradient travels in a thread of each shard's own while the caller goes on: a
// layer's is sent while earlier layers are still being computed. A step's first Pull ends the step:
// it waits until all gradients are out, and then, in sync mode, for the other workers.
//
// Not thread-safe. `job` has joined and outlives the store; nobody else uses it between the first
// Push of a step and the last Pull.
class RemoteDenseStore final : public sparse::DenseStore {
 public:
  static constexpr size_t kBlockFloats = 256 << 10;  // 1 MB: larger messages are slower

  RemoteDenseStore(RemoteStore& job, const JobConfig& config, bool chief);
  ~RemoteDenseStore() override;
  RemoteDenseStore(const RemoteDenseStore&) = delete;
  RemoteDenseStore& operator=(const RemoteDenseStore&) = delete;

  // The chief's weights are those to begin with, unless the servers have some. Waits until all
  // workers are there.
  Status Init(std::span<const sparse::DenseParam> params) override;
  // Of the worker, when Init is over.
  const RemoteStore::Place& place() const { return place_; }

  // What the present step is made of, before its first Pull; `state` is the worker's after it.
  void Describe(const sparse::PushInfo& info, std::string state);
  Status Push(size_t param, std::span<const float> gradient) override;
  Status Pull(size_t param) override;

  // Between steps: the parameters as they are now, the other workers' updates included.
  Status Refresh();

  // Of the calls to one shard, between steps.
  WireStats wire(size_t shard) const;

  // Bytes of blocks that a step sends and receives, as they are.
  uint64_t bytes_a_step() const { return bytes_a_step_; }

 private:
  // A part of a parameter, and its gradient on the way.
  struct Block {
    size_t param = 0;
    std::span<float> weights;
    size_t shard = 0;
    uint32_t number = 0;
    uint64_t step = 0;  // of the block's weights
    PodVector<float> gradient;
  };
  // The calls to one shard, made in their order by a thread of their own.
  struct Lane {
    std::deque<std::function<Status()>> calls;
    bool busy = false;
    Status status;
    FloatCodec codec;
    std::string values;
    WireStats wire;  // its own calls'
    std::jthread thread;
  };

  void MakeBlocks(std::span<const sparse::DenseParam> params);
  void Run(Lane& lane, const std::stop_token& stop);
  void Enqueue(size_t shard, std::function<Status()> call);
  Status WaitForLanes();
  Status SendInit(Block& block);
  Status SendGradient(Block& block, uint64_t sequence, uint32_t rows);
  Status Fetch(Block& block);
  Status EndStep();

  RemoteStore& job_;
  const JobConfig config_;
  const bool chief_;
  RemoteStore::Place place_;
  std::vector<Block> blocks_;
  uint64_t sequence_ = 0;  // of the step that is being pushed
  bool pushing_ = false;
  sparse::PushInfo info_;
  std::string state_;
  uint64_t bytes_a_step_ = 0;

  std::mutex mu_;
  std::condition_variable_any changed_;
  std::vector<std::unique_ptr<Lane>> lanes_;  // by shard; their calls and status guarded by mu_
};

}  // namespace millrace::ps
