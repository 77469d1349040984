#include "ps/wire/rpc_messages.h"

#include <utility>

#include "gen-cpp/parameter_server_constants.h"

namespace millrace::ps {

void ToRpc(const JoinRequest& from, rpc::JoinRequest& to) {
  to.version = rpc::g_parameter_server_constants.kProtocolVersion;
  to.token = from.token;
  to.worker = static_cast<int32_t>(from.worker);
  to.name = from.name;
  to.config = from.config;
  to.rejoin = from.rejoin;
  to.attempt = static_cast<int64_t>(from.attempt);
  to.process = static_cast<int64_t>(from.process);
}

void FromRpc(rpc::JoinReply& from, JoinReply& to) {
  to.waiting = std::move(from.waiting);
  to.generation = static_cast<uint64_t>(from.generation);
  to.clock_ns = from.clock_ns;
  to.instance = static_cast<uint64_t>(from.instance);
  to.checkpoints.assign(from.checkpoints.begin(), from.checkpoints.end());
}

void FromRpc(rpc::StartReply& from, StartReply& to) {
  to.waiting = std::move(from.waiting);
  to.sequence = static_cast<uint64_t>(from.sequence);
  to.state = std::move(from.state);
  to.step = static_cast<uint64_t>(from.step);
  to.examples = static_cast<uint64_t>(from.examples);
  to.clock_ns = from.clock_ns;
}

ExchangeRequest FromRpc(const rpc::ExchangeRequest& from) {
  return {.sequence = static_cast<uint64_t>(from.sequence),
          .step = static_cast<uint64_t>(from.step),
          .pushes = from.pushes,
          .push_list = static_cast<uint64_t>(from.push_list),
          .push_keys = from.push_keys,
          .gradient = from.gradient,
          .rows = static_cast<uint32_t>(from.rows),
          .weight = from.weight,
          .loss = from.loss,
          .state = from.state,
          .pulls = from.pulls,
          .pull_list = static_cast<uint64_t>(from.pull_list),
          .pull_keys = from.pull_keys,
          .keep_list = from.keep_list,
          .next_list = static_cast<uint64_t>(from.next_list),
          .next_keys = from.next_keys};
}

void ToRpc(const ExchangeReply& from, rpc::ExchangeReply& to) {
  to.outcome = static_cast<int32_t>(from.outcome);
  to.weights = from.weights;
  to.step = static_cast<int64_t>(from.step);
  to.examples = static_cast<int64_t>(from.examples);
  to.loss = from.loss;
  to.weight = from.weight;
  to.barrier_ns = from.barrier_ns;
  to.server_ns = from.server_ns;
  to.last_worker = from.last_worker;
  to.waiting = from.waiting;
  to.stop = from.stop;
  to.alone = from.alone;
}

void ToRpc(const StatsReply& from, rpc::StatsReply& to) {
  to.clock_ns = from.clock_ns;
  to.step = static_cast<int64_t>(from.step);
  to.examples = static_cast<int64_t>(from.examples);
  to.keys_pulled = static_cast<int64_t>(from.keys_pulled);
  to.keys_pushed = static_cast<int64_t>(from.keys_pushed);
  for (const CallCount& call : from.calls) {
    rpc::CallCount& out = to.calls.emplace_back();
    out.kind = call.kind;
    out.messages = static_cast<int64_t>(call.messages);
    out.bytes_in = static_cast<int64_t>(call.bytes_in);
    out.bytes_out = static_cast<int64_t>(call.bytes_out);
  }
  for (const WorkerStats& worker : from.workers) {
    rpc::WorkerStats& out = to.workers.emplace_back();
    out.worker = static_cast<int32_t>(worker.worker);
    out.name = worker.name;
    out.state = worker.state;
    out.pushes = static_cast<int64_t>(worker.pushes);
    out.examples = static_cast<int64_t>(worker.examples);
    out.dropped = static_cast<int64_t>(worker.dropped);
    out.waited_s = worker.waited_s;
  }
}

void FromRpc(const rpc::StatsReply& from, StatsReply& to) {
  to.clock_ns = from.clock_ns;
  to.step = static_cast<uint64_t>(from.step);
  to.examples = static_cast<uint64_t>(from.examples);
  to.keys_pulled = static_cast<uint64_t>(from.keys_pulled);
  to.keys_pushed = static_cast<uint64_t>(from.keys_pushed);
  for (const rpc::CallCount& call : from.calls) {
    to.calls.push_back({.kind = call.kind,
                        .messages = static_cast<uint64_t>(call.messages),
                        .bytes_in = static_cast<uint64_t>(call.bytes_in),
                        .bytes_out = static_cast<uint64_t>(call.bytes_out)});
  }
  for (const rpc::WorkerStats& worker : from.workers) {
    to.workers.push_back({.worker = static_cast<size_t>(worker.worker),
                          .name = worker.name,
                          .state = worker.state,
                          .pushes = static_cast<uint64_t>(worker.pushes),
                          .examples = static_cast<uint64_t>(worker.examples),
                          .dropped = static_cast<uint64_t>(worker.dropped),
                          .waited_s = worker.waited_s});
  }
}

}  // namespace millrace::ps
