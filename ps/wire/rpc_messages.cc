// SPDX-License-Identifier: Apache-2.0
#include "ps/wire/rpc_messages.h"

#include <utility>

#include "gen-cpp/parameter_server_constants.h"

namespace millrace::ps {

void ToRpc(const JoinRequest& from, rpc::JoinRequest& to) {
  to.version = rpc::g_parameter_server_constants.kProtocolVersion;
  to.worker = static_cast<int32_t>(from.worker);
  to.name = from.name;
  to.config = from.config;
  to.rejoin = from.rejoin;
  to.attempt = static_cast<int64_t>(from.attempt);
  to.process = static_cast<int64_t>(from.process);
  to.epoch = static_cast<int64_t>(from.epoch);
}

JoinRequest FromRpc(const rpc::JoinRequest& from) {
  return {.token = {},
          .worker = static_cast<size_t>(from.worker),
          .name = from.name,
          .config = from.config,
          .attempt = static_cast<uint64_t>(from.attempt),
          .process = static_cast<uint64_t>(from.process),
          .rejoin = from.rejoin,
          .epoch = static_cast<uint64_t>(from.epoch)};
}

void ToRpc(const JoinReply& from, rpc::JoinReply& to) {
  to.blocked_on = from.blocked_on;
  to.generation = static_cast<int64_t>(from.generation);
  to.clock_ns = from.clock_ns;
  to.instance = static_cast<int64_t>(from.instance);
  to.checkpoints.assign(from.checkpoints.begin(), from.checkpoints.end());
}

void FromRpc(rpc::JoinReply& from, JoinReply& to) {
  to.blocked_on = std::move(from.blocked_on);
  to.generation = static_cast<uint64_t>(from.generation);
  to.clock_ns = from.clock_ns;
  to.instance = static_cast<uint64_t>(from.instance);
  to.checkpoints.assign(from.checkpoints.begin(), from.checkpoints.end());
}

void FromRpc(rpc::StartReply& from, StartReply& to) {
  to.blocked_on = std::move(from.blocked_on);
  to.sequence = static_cast<uint64_t>(from.sequence);
  to.state = std::move(from.state);
  to.step = static_cast<uint64_t>(from.step);
  to.examples = static_cast<uint64_t>(from.examples);
  to.clock_ns = from.clock_ns;
}

void ToRpc(const StartReply& from, rpc::StartReply& to) {
  to.blocked_on = from.blocked_on;
  to.sequence = static_cast<int64_t>(from.sequence);
  to.state = from.state;
  to.step = static_cast<int64_t>(from.step);
  to.examples = static_cast<int64_t>(from.examples);
  to.clock_ns = from.clock_ns;
}

void ToRpc(const RestoredReply& from, rpc::RestoredReply& to) {
  to.chief_state = from.chief_state;
  for (const sparse::WorkerPosition& worker : from.workers) {
    rpc::WorkerPosition& out = to.workers.emplace_back();
    out.sequence = static_cast<int64_t>(worker.sequence);
    out.state = worker.state;
  }
}

void FromRpc(rpc::RestoredReply& from, RestoredReply& to) {
  to.chief_state = std::move(from.chief_state);
  for (rpc::WorkerPosition& worker : from.workers) {
    to.workers.push_back(
        {.sequence = static_cast<uint64_t>(worker.sequence), .state = std::move(worker.state)});
  }
}

void ToRpc(const AllFinishedReply& from, rpc::AllFinishedReply& to) {
  to.blocked_on = from.blocked_on;
  to.step = static_cast<int64_t>(from.progress.step);
  to.examples = static_cast<int64_t>(from.progress.examples);
  to.loss = from.progress.loss;
  to.weight = from.progress.weight;
}

void FromRpc(rpc::AllFinishedReply& from, AllFinishedReply& to) {
  to.blocked_on = std::move(from.blocked_on);
  to.progress = {.step = static_cast<uint64_t>(from.step),
                 .examples = static_cast<uint64_t>(from.examples),
                 .loss = from.loss,
                 .weight = from.weight};
}

void ToRpc(const HoldReply& from, rpc::HoldReply& to) {
  to.blocked_on = from.blocked_on;
  to.received.assign(from.received.begin(), from.received.end());
  to.step = static_cast<int64_t>(from.progress.step);
  to.examples = static_cast<int64_t>(from.progress.examples);
  to.loss = from.progress.loss;
  to.weight = from.progress.weight;
}

void FromRpc(rpc::HoldReply& from, HoldReply& to) {
  to.blocked_on = std::move(from.blocked_on);
  to.received.assign(from.received.begin(), from.received.end());
  to.progress = {.step = static_cast<uint64_t>(from.step),
                 .examples = static_cast<uint64_t>(from.examples),
                 .loss = from.loss,
                 .weight = from.weight};
}

void ToRpc(const DenseRequest& from, rpc::DenseRequest& to) {
  to.block = static_cast<int32_t>(from.block);
  to.sequence = static_cast<int64_t>(from.sequence);
  to.step = static_cast<int64_t>(from.step);
  to.rows = static_cast<int32_t>(from.rows);
  to.values = from.values;
}

DenseRequest FromRpc(const rpc::DenseRequest& from) {
  return {.block = static_cast<uint32_t>(from.block),
          .sequence = static_cast<uint64_t>(from.sequence),
          .step = static_cast<uint64_t>(from.step),
          .rows = static_cast<uint32_t>(from.rows),
          .values = from.values};
}

void ToRpc(DenseReply& from, rpc::DenseReply& to) {
  to.blocked_on = std::move(from.blocked_on);
  to.values = std::move(from.values);
  to.step = static_cast<int64_t>(from.step);
}

void FromRpc(rpc::DenseReply& from, DenseReply& to) {
  to.blocked_on = std::move(from.blocked_on);
  to.values = std::move(from.values);
  to.step = static_cast<uint64_t>(from.step);
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
