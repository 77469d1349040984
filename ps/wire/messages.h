// SPDX-License-Identifier: Apache-2.0
// The messages between a worker and a shard, independent of how they travel.
// parameter_server.thrift says what each field means.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sparse/checkpoint.h"

namespace millrace::ps {

// The id of the arrow, in traces, from a worker's exchange to the shard's handling of it.
inline uint64_t FlowId(size_t worker, size_t shard, uint64_t sequence) {
  return uint64_t{worker} << 48 | uint64_t{shard} << 40 | sequence;
}

// How far a job has come.
struct JobProgress {
  uint64_t step = 0;
  uint64_t examples = 0;  // trained on by all workers
  double loss = 0;        // summed over them, each before its step
  double weight = 0;
};

struct JoinRequest {
  std::string token;  // of the job; it does not travel
  size_t worker = 0;
  std::string name;
  std::string config;
  uint64_t attempt = 0;  // from 1 on, within a process
  uint64_t process = 0;  // random; 0: unknown
  bool rejoin = false;
  uint64_t epoch = 0;  // from the chief; 0: the run keeps no checkpoints
};
struct JoinReply {
  uint64_t generation = 0;
  int64_t clock_ns = 0;
  std::vector<uint64_t> checkpoints;
  uint64_t instance = 0;
  std::string blocked_on;  // not empty: the worker has not joined and calls again
};

// Stops the pushes of all workers, or lets them go on.
struct HoldRequest {
  bool hold = true;
  std::vector<uint64_t> last_pushes =
      {};  // by worker, the last push that is accepted; empty: no more
};
struct HoldReply {
  std::string blocked_on;
  std::vector<uint64_t> received;  // by worker
  JobProgress progress;
};

// All shards write it, with the chief's state.
struct CheckpointRequest {
  uint64_t id = 0;
  std::string chief_state = {};
  std::optional<uint64_t> committed = {};  // complete on all shards: it stays
};

// The checkpoint that the shards take their model from.
struct RestoreRequest {
  uint64_t id = 0;
  uint64_t shards = 0;  // that it consists of
  // Empty: a checkpoint of this run, which is resumed. Otherwise the folder of the checkpoints of
  // an earlier run, from whose model this run continues.
  std::string earlier_run = {};
};
// What a restored checkpoint says of the workers that it was written with.
struct RestoredReply {
  std::string chief_state;
  std::vector<sparse::WorkerPosition> workers;
};

struct StartReply {
  std::string blocked_on;
  uint64_t sequence = 0;
  std::string state;
  uint64_t step = 0;
  uint64_t examples = 0;
  int64_t clock_ns = 0;
};

// What a pull wants of a list's keys.
enum class PullOf {
  kBatch = 0,    // what a training batch needs: weights, scales, and factors, of features that were
                 // never trained the initial ones
  kWeights = 1,  // the weights as they are
  kFactors = 2,  // the factors as they are: 0 of features that were never trained
};
constexpr int32_t kLastPullOf = 2;

// One push and one pull, each optional. The views belong to the sender and stay valid until the
// call returns.
struct ExchangeRequest {
  int32_t worker = 0;      // the channel sets these two
  int64_t generation = 0;  //
  uint64_t sequence = 0;
  uint64_t step = 0;
  bool pushes = false;
  uint64_t push_list = 0;
  std::string_view push_keys = {};
  std::string_view gradient = {};
  uint32_t rows = 0;
  double weight = 0;
  double loss = 0;
  std::string_view state = {};
  bool pulls = false;
  uint64_t pull_list = 0;
  std::string_view pull_keys = {};
  bool keep_list = false;
  PullOf pull_of = PullOf::kBatch;
};

enum class Outcome { kDone = 0, kBlocked = 1, kUnknownList = 2 };

// `weights` belongs to the channel (on the worker) or to the handler (on the server) and stays
// valid until its next call.
struct ExchangeReply {
  Outcome outcome = Outcome::kDone;
  std::string_view weights;
  JobProgress progress;  // with a pull, `step` is the one that the weights are of
  int64_t barrier_ns = 0;
  int64_t server_ns = 0;
  int32_t last_worker = -1;
  std::string blocked_on;
  bool stopped = false;
  bool others_finished = false;
};

struct AllFinishedReply {
  std::string blocked_on;
  JobProgress progress;
};

struct DenseRequest {
  uint32_t block = 0;
  uint64_t sequence = 0;
  uint64_t step = 0;
  uint32_t rows = 0;
  std::string_view values = {};
};
struct DenseReply {
  std::string blocked_on;
  std::string values;
  uint64_t step = 0;
};

struct EntriesReply {
  std::string entries;
  int64_t next = -1;
};

struct CallCount {
  std::string kind;
  uint64_t messages = 0;
  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;
};
struct WorkerStats {
  size_t worker = 0;
  std::string name;
  std::string state;
  uint64_t pushes = 0;
  uint64_t examples = 0;
  uint64_t dropped = 0;
  double waited_s = 0;
};
struct StatsReply {
  uint64_t step = 0;
  uint64_t examples = 0;
  uint64_t keys_pulled = 0;
  uint64_t keys_pushed = 0;
  std::vector<CallCount> calls;
  std::vector<WorkerStats> workers;
  int64_t clock_ns = 0;
};

}  // namespace millrace::ps
