#include "ps/server/answer_ahead.h"

#include <cstddef>
#include <utility>

#include "profiler/trace.h"

namespace millrace::ps {

using profiler::Cat;

Status AnswerAhead::Prepare(const sparse::LocalStore& store, SharedKeys push, SharedKeys pull,
                            SharedNumbers room) {
  profiler::TraceScope op("gather", Cat::kServer,
                          {.keys = static_cast<int64_t>(pull->keys.size())});
  complete_ = false;
  weights_ = nullptr;
  RETURN_IF_ERROR(store.PullUntouched(pull->keys, room->Resize(pull->keys.size())));
  op.Then("overlap", Cat::kServer, {.keys = static_cast<int64_t>(push->keys.size())});
  overlap_.Find(push->keys, pull->keys);
  const std::span<const uint32_t> places = overlap_.left_places();
  keys_.resize(places.size());
  for (size_t i = 0; i < places.size(); ++i) keys_[i] = push->keys[places[i]];
  steps_ = store.steps() + 1;
  push_ = std::move(push);
  pull_ = std::move(pull);
  weights_ = std::move(room);
  return {};
}

bool AnswerAhead::IsFor(const sparse::LocalStore& store, const SharedKeys& push,
                        const SharedKeys& pull) const {
  return weights_ && !complete_ && push_ == push && pull_ == pull && steps_ == store.steps() + 1;
}

bool AnswerAhead::Complete(const sparse::LocalStore& store, const SharedKeys& push,
                           std::span<const float> gradient) {
  if (!IsFor(store, push, pull_)) return false;
  TRACE_SCOPE("touched_weights", Cat::kServer, {.keys = static_cast<int64_t>(keys_.size())});
  const std::span<const uint32_t> from = overlap_.left_places(), to = overlap_.right_places();
  gradient_.resize(from.size());
  touched_.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) gradient_[i] = gradient[from[i]];
  if (!store.PullTouched(keys_, gradient_, touched_).ok()) return false;
  const std::span<float> weights = weights_->numbers();
  for (size_t i = 0; i < to.size(); ++i) weights[to[i]] = touched_[i];
  complete_ = true;
  return true;
}

SharedNumbers AnswerAhead::Take(uint64_t steps, const SharedKeys& pull) {
  if (!weights_ || !complete_ || steps_ != steps || pull_->signature != pull->signature) {
    return nullptr;
  }
  complete_ = false;
  return std::move(weights_);
}

}  // namespace millrace::ps
