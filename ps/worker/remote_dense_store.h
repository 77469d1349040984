// SPDX-License-Identifier: Apache-2.0
// Dense parameters on the servers of a job: a net's layers, cut into blocks (dense_cut.h) so that
// the shards hold even parts.
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

// One thread per shard sends gradients while the caller continues: a layer's gradient is sent while
// earlier layers are still being computed. A step's first Pull ends the step: it waits until all
// gradients are sent and then, in sync mode, for the other workers.
//
// Not thread-safe. `session` has joined and outlives the store; only the store uses it between the
// first Push of a step and the last Pull.
class RemoteDenseStore final : public sparse::DenseStore {
 public:
  static constexpr size_t kBlockFloats = 256 << 10;  // 1 MB: larger messages are slower

  explicit RemoteDenseStore(JobSession& session);
  ~RemoteDenseStore() override;
  RemoteDenseStore(const RemoteDenseStore&) = delete;
  RemoteDenseStore& operator=(const RemoteDenseStore&) = delete;

  // Starts the session: waits until all workers have joined. The chief's weights are the initial
  // ones, unless the servers have weights already.
  Status Init(std::span<const sparse::DenseParam> params) override;
  // Where the worker resumes; valid after Init.
  const JobSession::ResumePoint& resume_point() const { return resume_point_; }

  // What the present step consists of: before its first Push with the rows, and before its first
  // Pull with the loss. `state` is the worker's after the step.
  void SetStep(const sparse::PushInfo& info, std::string state);
  Status Push(size_t param, std::span<const float> gradient) override;
  Status Pull(size_t param) override;

  // Between steps: fetches the parameters as they are now, with the other workers' updates.
  Status Refresh();
  // Between steps: receives all replies and brings the session's progress up to date.
  Status Flush() { return steps_.Flush(); }

  // Counts of the calls to one shard, between steps.
  WireStats wire(size_t shard) const;

  // Bytes of blocks that a step sends, and receives, without packing.
  uint64_t bytes_a_step() const { return bytes_a_step_; }

 private:
  // A part of a parameter, and its gradient while it is being sent.
  struct Block {
    size_t param = 0;
    std::span<float> weights;
    size_t shard = 0;
    uint32_t number = 0;
    uint64_t step = 0;  // of the block's weights
    PodVector<float> gradient;
  };
  // The calls to one shard, which one thread makes in their order.
  struct Sender {
    std::deque<std::function<Status()>> calls;
    bool busy = false;
    Status status;
    FloatCodec codec;
    std::string values;
    WireStats wire;  // of these calls
    std::jthread thread;
  };

  void MakeBlocks(std::span<const sparse::DenseParam> params);
  void Run(Sender& sender, const std::stop_token& stop);
  void Enqueue(size_t shard, std::function<Status()> call);
  Status WaitForSenders();
  Status SendInit(Block& block);
  Status SendGradient(Block& block, uint64_t sequence, uint32_t rows);
  Status Fetch(Block& block);
  Status EndStep();

  JobSession& session_;
  RemoteStore steps_;  // pushes one empty list of keys per step
  JobSession::ResumePoint resume_point_;
  std::vector<Block> blocks_;
  uint64_t sequence_ = 0;  // of the step that is being pushed
  bool pushing_ = false;
  sparse::PushInfo info_;
  std::string state_;
  uint64_t bytes_a_step_ = 0;

  std::mutex mu_;
  std::condition_variable_any changed_;
  std::vector<std::unique_ptr<Sender>> senders_;  // by shard; their calls and status guarded by mu_
};

}  // namespace millrace::ps
