#include "ps/server/exchange_job.h"

#include <cmath>
#include <utility>

#include "profiler/trace.h"

namespace millrace::ps {

namespace {

Result<SharedKeys> MakeList(KeyDecoder& decoder, std::string_view bytes, uint64_t signature,
                            uint64_t limit) {
  if (ListSignature(bytes) != signature) {
    return Corrupt("key list: expected the signature of its bytes, found another one");
  }
  auto list = std::make_shared<KeyList>();
  list->signature = signature;
  RETURN_IF_ERROR(decoder.Decode(bytes, limit, list->keys));
  return SharedKeys(std::move(list));
}

}  // namespace

bool ExchangeJob::FindLists(const Shard& shard, const ExchangeRequest& request) {
  push_list_ = nullptr;
  if (request.pushes && request.push_keys.empty()) {
    push_list_ = shard.FindList(worker_, request.push_list);
    if (!push_list_) return false;
  }
  if (!request.pulls || !request.pull_keys.empty()) return true;
  const auto is_pulled = [&](const SharedKeys& list) {
    return list && list->signature == request.pull_list;
  };
  if (is_pulled(pull_list_)) return true;
  pull_list_ = is_pulled(next_list_) ? std::exchange(next_list_, nullptr)
                                     : shard.FindList(worker_, request.pull_list);
  return pull_list_ != nullptr;
}

Status ExchangeJob::Decode(const ExchangeRequest& request, uint64_t local_features) {
  TRACE_SCOPE("decode_request", profiler::Cat::kServer,
              {.bytes = static_cast<int64_t>(request.gradient.size() + request.pull_keys.size())});
  if (request.pushes) {
    if (!request.push_keys.empty()) {
      ASSIGN_OR_RETURN(
          push_list_, MakeList(key_decoder_, request.push_keys, request.push_list, local_features));
    }
    if (!(request.weight >= 0) || !std::isfinite(request.loss)) {
      return Corrupt("a push's weight and loss: expected finite numbers, weight at least 0");
    }
    gradient_.resize(push_list_->keys.size());
    RETURN_IF_ERROR(floats_.Decode(request.gradient, gradient_));
  }
  if (request.pulls && !request.pull_keys.empty()) {
    ASSIGN_OR_RETURN(pull_list_,
                     MakeList(key_decoder_, request.pull_keys, request.pull_list, local_features));
  }
  return {};
}

Status ExchangeJob::Take(Shard& shard, const ExchangeRequest& request, int64_t now_ns) {
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
  return shard.Take(worker_, std::move(push), now_ns);
}

Status ExchangeJob::Answer(Shard& shard, const ExchangeRequest& request, ExchangeReply& reply) {
  const JobProgress& progress = shard.progress();
  reply.step = progress.step;
  reply.examples = progress.examples;
  reply.loss = progress.loss;
  reply.weight = progress.weight;
  reply.last_worker = shard.last_worker();
  reply.stop = shard.stopped();
  reply.alone = shard.IsAlone(worker_);
  alone_ = shard.StepsAlone(worker_);
  if (!request.pulls) return {};
  weights_ = nullptr;  // may be used again
  ASSIGN_OR_RETURN(const Shard::Weights weights,
                   shard.Answer(worker_, request.sequence, pull_list_, !request.keep_list));
  reply.step = weights.step;
  weights_ = weights.numbers;
  return {};
}

Status ExchangeJob::Encode(const ExchangeRequest& request, bool zstd, ExchangeReply& reply) {
  if (!request.pulls) return {};
  reply.weights = weights_->bytes();
  if (!zstd) return {};
  TRACE_SCOPE("encode_reply", profiler::Cat::kServer,
              {.bytes = static_cast<int64_t>(reply.weights.size())});
  RETURN_IF_ERROR(floats_.Encode(weights_->numbers(), {.zstd = true}, packed_));
  reply.weights = packed_;
  return {};
}

Status ExchangeJob::DecodeNext(const ExchangeRequest& request, uint64_t local_features) {
  if (request.next_list == 0) return {};  // the one that was announced before may still come
  TRACE_SCOPE("decode_next", profiler::Cat::kServer,
              {.bytes = static_cast<int64_t>(request.next_keys.size())});
  ASSIGN_OR_RETURN(next_list_,
                   MakeList(key_decoder_, request.next_keys, request.next_list, local_features));
  return {};
}

}  // namespace millrace::ps
