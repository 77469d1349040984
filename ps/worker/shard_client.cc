// SPDX-License-Identifier: Apache-2.0
#include "ps/worker/shard_client.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "profiler/trace.h"

namespace millrace::ps {
namespace {

constexpr int64_t kMsNs = 1000000;
constexpr int64_t kPauseNs = 20 * kMsNs;  // between two attempts to connect
constexpr int kMaxBroken = 5;             // connections in a row that break in the same call
constexpr int64_t kNoteEveryNs = 5000 * kMsNs;
// The bytes of an exchange without keys, numbers and the worker's state: names, types and lengths
// of fields in Thrift's binary protocol.
constexpr uint64_t kFrameBytes = 16;
constexpr uint64_t kRequestBytes = 157 + kFrameBytes;
constexpr uint64_t kReplyBytes = 121 + kFrameBytes;

}  // namespace

bool StopGrace::over() {
  if (!should_stop_ || !should_stop_()) return false;
  int64_t asked_ns = 0;
  const int64_t now_ns = clock_.NowNs();
  if (asked_ns_.compare_exchange_strong(asked_ns, now_ns)) return false;
  return now_ns - asked_ns > grace_ns_;
}

Status WaitOptions::Validate() const {
  if (reconnect_s >= 0 && reconnect_s <= 1e6) return {};
  char found[32];
  std::snprintf(found, sizeof found, "%g", reconnect_s);
  return Invalid(std::string("reconnect_seconds: expected 0 to 1000000, found ") + found);
}

void WireStats::Add(const WireStats& other) {
  exchanges += other.exchanges;
  repeats += other.repeats;
  reconnects += other.reconnects;
  corrupt += other.corrupt;
  predicted_sent += other.predicted_sent;
  predicted_received += other.predicted_received;
  sent += other.sent;
  received += other.received;
  wait_ns += other.wait_ns;
  barrier_ns += other.barrier_ns;
  server_ns += other.server_ns;
}

bool ShardClient::IsBroken(const Status& status) {
  if (status.code() != Code::kCorrupt) return status.code() == Code::kIo;
  ++stats_.corrupt;
  if (wait_.on_note) wait_.on_note(Describe() + ": " + status.message() + "; reconnecting");
  return true;
}

Status ShardClient::TryJoin(JoinReply& reply, bool again) {
  auto channel = transport_.Connect(shard_);
  RETURN_IF_ERROR(channel.status());
  channel_ = std::move(*channel);
  sent_before_ = received_before_ = 0;
  JoinRequest join = join_;
  join.rejoin = join.rejoin || again;
  join.attempt = ++attempts_;
  in_flight_ = false;
  while (true) {
    RETURN_IF_ERROR(channel_->Join(join, reply));
    if (reply.blocked_on.empty()) return {};
    if (ShouldStop()) return Cancelled("interrupted");
    NoteBlocked(reply.blocked_on);
  }
}

Status ShardClient::Connect(JoinReply& reply) {
  const int64_t deadline_ns = clock_.NowNs() + wait_.first_join_ns;
  int64_t note_ns = clock_.NowNs() + 1000 * kMsNs;
  while (true) {
    const Status status = TryJoin(reply, /*again=*/false);
    if (status.ok()) break;
    if (!IsBroken(status) || clock_.NowNs() >= deadline_ns) {
      return Status(status.code(), Describe() + ": " + status.message());
    }
    if (ShouldStop()) return Cancelled("interrupted");
    if (clock_.NowNs() >= note_ns && wait_.on_note) {
      wait_.on_note("waiting for " + Describe() + ": " + status.message());
      note_ns = clock_.NowNs() + kNoteEveryNs;
    }
    clock_.Pause(kPauseNs);
  }
  instance_ = reply.instance;
  CountBytes();
  return {};
}

Status ShardClient::Reconnect(const Status& why) {
  const int64_t begin_ns = clock_.NowNs();
  ++stats_.reconnects;
  if (++broken_ > kMaxBroken) {
    return Status(Code::kIo, Describe() + " breaks every connection: " + why.message());
  }
  CountBytes();
  Status last = why;
  const auto give_up_ns = static_cast<int64_t>(wait_.reconnect_s * 1e9);
  do {
    JoinReply reply;
    last = TryJoin(reply, /*again=*/true);
    if (last.ok() && reply.instance == instance_) return {};
    if (last.ok()) {
      return Status(Code::kIo, Describe() +
                                   " was started again and has lost this job: resume the job "
                                   "from its last checkpoint");
    }
    if (!IsBroken(last)) return Status(last.code(), Describe() + ": " + last.message());
    if (ShouldStop()) return Cancelled("interrupted");
    clock_.Pause(kPauseNs);
  } while (clock_.NowNs() - begin_ns < give_up_ns);
  char text[64];
  std::snprintf(text, sizeof text, "; gave up after %.1f s",
                static_cast<double>(clock_.NowNs() - begin_ns) * 1e-9);
  return Status(Code::kIo, Describe() + " is gone: " + last.message() + text);
}

void ShardClient::NoteBlocked(const std::string& blocked_on) {
  if (!wait_.on_note || clock_.NowNs() - noted_ns_ <= kNoteEveryNs) return;
  noted_ns_ = clock_.NowNs();
  wait_.on_note("still waiting for " + blocked_on);
}

void ShardClient::CountBytes() {
  if (!channel_) return;
  sent_before_ = channel_->bytes_sent();
  received_before_ = channel_->bytes_received();
}

Status ShardClient::SendNow(bool with_push_keys, bool with_pull_keys) {
  ExchangeRequest request = request_;
  if (!with_push_keys) request.push_keys = {};
  if (!with_pull_keys) request.pull_keys = {};
  RETURN_IF_ERROR(channel_->SendExchange(request));
  in_flight_ = true;
  return {};
}

Status ShardClient::Send(const ExchangeRequest& request, bool push_list_known,
                         bool pull_list_known) {
  request_ = request;
  barrier_ns_ = server_ns_ = 0;
  ++stats_.exchanges;
  stats_.predicted_sent += kRequestBytes + request.gradient.size() + request.state.size() +
                           (push_list_known ? 0 : request.push_keys.size()) +
                           (pull_list_known ? 0 : request.pull_keys.size());
  CountBytes();
  return SendAgain(SendNow(!push_list_known, !pull_list_known));
}

Status ShardClient::SendAgain(Status status) {
  while (IsBroken(status)) {
    RETURN_IF_ERROR(Reconnect(status));
    status = SendNow(true, true);
  }
  return status;
}

Status ShardClient::Receive(ExchangeReply& reply) {
  const int64_t begin_ns = clock_.NowNs();
  while (true) {
    Status status = channel_->ReceiveExchange(reply);
    in_flight_ = false;
    if (status.ok()) {
      broken_ = 0;
      barrier_ns_ += reply.barrier_ns;
      server_ns_ += reply.server_ns;
      if (reply.outcome == Outcome::kDone) break;
      if (stop_grace_.over()) return Cancelled("interrupted");
      if (reply.outcome == Outcome::kBlocked) NoteBlocked(reply.blocked_on);
    } else if (IsBroken(status)) {
      RETURN_IF_ERROR(Reconnect(status));
    } else {
      return Status(status.code(), Describe() + ": " + status.message());
    }
    ++stats_.repeats;
    RETURN_IF_ERROR(SendAgain(SendNow(true, true)));
    if (status.ok() && reply.outcome == Outcome::kBlocked) break;
  }
  stats_.wait_ns += clock_.NowNs() - begin_ns;
  if (reply.outcome == Outcome::kBlocked) return {};
  stats_.predicted_received += kReplyBytes + reply.weights.size();
  stats_.sent += channel_->bytes_sent() - sent_before_;
  stats_.received += channel_->bytes_received() - received_before_;
  CountBytes();
  reply.barrier_ns = barrier_ns_;
  reply.server_ns = server_ns_;
  return {};
}

void ShardClient::CountCause(int64_t wait_ns, const ExchangeReply& reply) {
  const int64_t barrier_ns = std::clamp<int64_t>(reply.barrier_ns, 0, wait_ns);
  stats_.barrier_ns += barrier_ns;
  stats_.server_ns += std::clamp<int64_t>(reply.server_ns, 0, wait_ns - barrier_ns);
}

Status ShardClient::Call(const std::function<Status(Channel&)>& call) {
  if (std::exchange(in_flight_, false)) {  // an exchange that was given up
    ExchangeReply unused;
    const Status received = channel_->ReceiveExchange(unused);
    if (IsBroken(received)) RETURN_IF_ERROR(Reconnect(received));
  }
  while (true) {
    const Status status = call(*channel_);
    if (status.ok()) {
      broken_ = 0;
      CountBytes();
      return status;
    }
    if (status.code() == Code::kBusy) {
      broken_ = 0;
      if (stop_grace_.over()) return Cancelled("interrupted");
      NoteBlocked(status.message());
      continue;
    }
    if (!IsBroken(status)) {
      return Status(status.code(), Describe() + ": " + status.message());
    }
    RETURN_IF_ERROR(Reconnect(status));
  }
}

}  // namespace millrace::ps
