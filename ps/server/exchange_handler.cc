// SPDX-License-Identifier: Apache-2.0
#include "ps/server/exchange_handler.h"

#include <cmath>
#include <utility>

#include "profiler/trace.h"

namespace millrace::ps {
namespace {

using profiler::Cat;

Result<SharedKeys> MakeList(KeyDecoder& decoder, std::string_view bytes, uint64_t signature,
                            const KeyBounds& bounds) {
  if (ListSignature(bytes) != signature) {
    return Corrupt("key list: expected the signature of its bytes, found another one");
  }
  auto list = std::make_shared<KeyList>();
  list->signature = signature;
  RETURN_IF_ERROR(decoder.Decode(bytes, bounds, list->keys));
  return SharedKeys(std::move(list));
}

void SetBusy(ExchangeReply& reply) {
  reply.outcome = Outcome::kBlocked;
  reply.blocked_on = kBlockedOnCheckpoint;
}

}  // namespace

ExchangeHandler::ExchangeHandler(ShardAccess& access, size_t worker, uint64_t generation)
    : access_(access),
      shard_number_(access.shard().options().shard),
      worker_(worker),
      generation_(generation) {}

Status ExchangeHandler::Handle(const ExchangeRequest& request, ExchangeReply& reply) {
  profiler::TraceScope span(
      "serve_exchange", Cat::kServer,
      {.bytes = static_cast<int64_t>(request.gradient.size() + request.push_keys.size() +
                                     request.pull_keys.size())});
  span.FlowIn(FlowId(worker_, shard_number_, request.sequence));
  const int64_t begin_ns = access_.NowNs();
  RETURN_IF_ERROR(Accept(request, reply));
  if (reply.outcome == Outcome::kDone) {
    bool zstd = false;
    {
      const ShardLock lock(access_);
      RETURN_IF_ERROR(Enter(reply));
      if (reply.outcome == Outcome::kDone) RETURN_IF_ERROR(WaitUntilDue(request, reply));
      if (reply.outcome == Outcome::kDone) {
        RETURN_IF_ERROR(FillReply(request, reply));
        zstd = access_.shard().config().zstd;
      }
    }
    if (reply.outcome == Outcome::kDone) RETURN_IF_ERROR(Encode(request, zstd, reply));
  }
  reply.server_ns = access_.NowNs() - begin_ns - reply.barrier_ns;
  return {};
}

Status ExchangeHandler::Accept(const ExchangeRequest& request, ExchangeReply& reply) {
  reply = {};
  ShardLock lock(access_);
  RETURN_IF_ERROR(Enter(reply));
  if (reply.outcome != Outcome::kDone) return {};
  if (!FindLists(request)) {
    reply.outcome = Outcome::kUnknownList;
    return {};
  }
  const KeyBounds bounds = access_.shard().key_bounds();
  const NumberLayout layout = access_.shard().config().batch_layout();
  lock.unlock();
  RETURN_IF_ERROR(Decode(request, bounds, layout));
  lock.lock();
  RETURN_IF_ERROR(Enter(reply));
  if (reply.outcome == Outcome::kDone) RETURN_IF_ERROR(WaitWhileHeld(request, reply));
  return reply.outcome == Outcome::kDone ? Receive(request) : Status();
}

// A push that the next checkpoint must not have.
Status ExchangeHandler::WaitWhileHeld(const ExchangeRequest& request, ExchangeReply& reply) {
  const Shard& shard = access_.shard();
  const auto accepted = [&] { return !request.pushes || !shard.IsHeld(worker_, request.sequence); };
  if (accepted()) return {};
  const bool is_free = access_.WaitUntil(accepted);
  if (is_free && accepted()) return CheckCaller();
  SetBusy(reply);
  return is_free ? CheckCaller() : Status();
}

Status ExchangeHandler::Enter(ExchangeReply& reply) {
  if (!access_.WaitUntilFree()) {
    SetBusy(reply);
    return {};
  }
  return CheckCaller();
}

Status ExchangeHandler::CheckCaller() {
  RETURN_IF_ERROR(access_.shard().CheckCaller(worker_, generation_));
  return access_.shard().failed();
}

bool ExchangeHandler::FindLists(const ExchangeRequest& request) {
  const Shard& shard = access_.shard();
  push_list_ = nullptr;
  if (request.pushes && request.push_keys.empty()) {
    push_list_ = shard.FindList(worker_, request.push_list);
    if (!push_list_) return false;
  }
  if (!request.pulls || !request.pull_keys.empty()) return true;
  if (pull_list_ && pull_list_->signature == request.pull_list) return true;
  pull_list_ = shard.FindList(worker_, request.pull_list);
  return pull_list_ != nullptr;
}

Status ExchangeHandler::Decode(const ExchangeRequest& request, const KeyBounds& bounds,
                               const NumberLayout& layout) {
  TRACE_SCOPE("decode_request", Cat::kServer,
              {.bytes = static_cast<int64_t>(request.gradient.size() + request.pull_keys.size())});
  if (request.pushes) {
    if (!request.push_keys.empty()) {
      ASSIGN_OR_RETURN(push_list_,
                       MakeList(key_decoder_, request.push_keys, request.push_list, bounds));
    }
    if (!(request.weight >= 0) || !std::isfinite(request.loss)) {
      return Corrupt("a push's weight and loss: expected finite numbers, weight at least 0");
    }
    RETURN_IF_ERROR(layout.Check(push_list_->keys.size()));
    gradient_.resize(layout.Count(push_list_->keys));
    RETURN_IF_ERROR(floats_.Decode(request.gradient, gradient_));
  }
  if (!request.pulls) return {};
  if (!request.pull_keys.empty()) {
    ASSIGN_OR_RETURN(pull_list_,
                     MakeList(key_decoder_, request.pull_keys, request.pull_list, bounds));
  }
  const auto pull_of = static_cast<int32_t>(request.pull_of);
  if (pull_of < 0 || pull_of > kLastPullOf) {
    return Corrupt("pull_of: expected 0 to " + std::to_string(kLastPullOf) + ", found " +
                   std::to_string(pull_of));
  }
  return layout.Check(pull_list_->keys.size());
}

Status ExchangeHandler::Receive(const ExchangeRequest& request) {
  Shard& shard = access_.shard();
  if (request.pulls && request.keep_list) shard.KeepList(worker_, pull_list_);
  if (!request.pushes) return {};
  Push push;
  push.sequence = request.sequence;
  push.step = request.step;
  push.list = std::move(push_list_);
  push.gradient = std::move(gradient_);
  push.rows = request.rows;
  push.weight = request.weight;
  push.loss = request.loss;
  push.state = request.state;
  const uint64_t step_before = shard.progress().step;
  RETURN_IF_ERROR(shard.Receive(worker_, std::move(push), access_.NowNs()));
  if (shard.progress().step != step_before) access_.NotifyAll();
  return {};
}

Status ExchangeHandler::WaitUntilDue(const ExchangeRequest& request, ExchangeReply& reply) {
  const Shard& shard = access_.shard();
  const auto due = [&] { return shard.ReplyDue(worker_, request.sequence); };
  if (!due()) {
    profiler::TraceScope span("barrier_wait", Cat::kBarrier);
    const int64_t wait_ns = access_.NowNs();
    const bool is_free = access_.WaitUntil(due);
    reply.barrier_ns = access_.NowNs() - wait_ns;
    if (!is_free) {
      SetBusy(reply);
      return {};
    }
    span.Set("worker", shard.last_worker());
    RETURN_IF_ERROR(CheckCaller());
  }
  if (due()) return {};
  reply.outcome = Outcome::kBlocked;
  reply.blocked_on = shard.ReplyBlockedOn(worker_);
  return {};
}

Status ExchangeHandler::FillReply(const ExchangeRequest& request, ExchangeReply& reply) {
  Shard& shard = access_.shard();
  reply.progress = shard.progress();
  reply.last_worker = shard.last_worker();
  reply.stopped = shard.stopped();
  reply.others_finished = shard.OthersFinished(worker_);
  if (!request.pulls) return {};
  ASSIGN_OR_RETURN(const Shard::Weights weights,
                   shard.Gather(worker_, request.sequence, pull_list_, request.pull_of));
  reply.progress.step = weights.step;
  weights_ = weights.numbers;
  return {};
}

Status ExchangeHandler::Encode(const ExchangeRequest& request, bool zstd, ExchangeReply& reply) {
  if (!request.pulls) return {};
  reply.weights = weights_->bytes();
  if (!zstd) return {};
  TRACE_SCOPE("encode_reply", Cat::kServer, {.bytes = static_cast<int64_t>(reply.weights.size())});
  RETURN_IF_ERROR(floats_.Encode(weights_->numbers(), {.zstd = true}, packed_));
  reply.weights = packed_;
  return {};
}

}  // namespace millrace::ps
