// What a worker and a shard say to each other, without the bytes of any wire.
// parameter_server.thrift says what each field means.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::ps {

// Of the arrow from a worker's exchange to its handling by a shard, in traces.
inline uint64_t FlowId(size_t worker, size_t shard, uint64_t sequence) {
  return uint64_t{worker} << 48 | uint64_t{shard} << 40 | sequence;
}

struct JoinRequest {
  std::string token;
  size_t worker = 0;
  std::string name;
  std::string config;
  uint64_t attempt = 0;  // of this process, from 1 on
  uint64_t process = 0;  // drawn by it
  bool rejoin = false;
};
struct JoinReply {
  uint64_t generation = 0;
  int64_t clock_ns = 0;
  std::vector<uint64_t> checkpoints;
  uint64_t instance = 0;
  std::string waiting;  // not empty: the worker has not joined and asks again
};

struct StartReply {
  std::string waiting;
  uint64_t sequence = 0;
  std::string state;
  uint64_t step = 0;
  uint64_t examples = 0;
  int64_t clock_ns = 0;
};

// Views are the sender's and must stay valid until the call is over.
struct ExchangeRequest {
  uint64_t sequence = 0;
  uint64_t step = 0;
  bool pushes = false;
  uint64_t push_list = 0;
  std::string_view push_keys;
  std::string_view gradient;
  uint32_t rows = 0;
  double weight = 0;
  double loss = 0;
  std::string_view state;
  bool pulls = false;
  uint64_t pull_list = 0;
  std::string_view pull_keys;
  bool keep_list = false;
  uint64_t next_list = 0;  // 0: none
  std::string_view next_keys;
};

enum class Outcome { kDone = 0, kWaiting = 1, kUnknownList = 2 };

// The view is the channel's and stays valid until its next call, or the server's and stays valid
// until its job's next call.
struct ExchangeReply {
  Outcome outcome = Outcome::kDone;
  std::string_view weights;
  uint64_t step = 0;
  uint64_t examples = 0;
  double loss = 0;
  double weight = 0;
  int64_t barrier_ns = 0;
  int64_t server_ns = 0;
  int32_t last_worker = -1;
  std::string waiting;
  bool stop = false;
  bool alone = false;
};

struct EntriesReply {
  std::string entries;
  int64_t following = -1;
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
