#include "ps/server/pull_memory.h"

#include <utility>

namespace millrace::ps {
namespace {

constexpr size_t kAnswers = 3;
constexpr size_t kMaxKeptKeys = 32 << 20;

}  // namespace

SharedKeys PullMemory::FindList(uint64_t signature) const {
  for (const Answer& answer : answers_) {
    if (answer.list->signature == signature) return answer.list;
  }
  const auto kept = kept_.find(signature);
  return kept == kept_.end() ? nullptr : kept->second;
}

void PullMemory::KeepList(SharedKeys list) {
  const size_t keys = list->keys.size();
  if (kept_keys_ + keys > kMaxKeptKeys) return;
  if (kept_.emplace(list->signature, std::move(list)).second) kept_keys_ += keys;
}

const PullMemory::Answer* PullMemory::Find(uint64_t sequence, uint64_t signature) const {
  for (const Answer& answer : answers_) {
    if (answer.sequence == sequence && answer.list->signature == signature) return &answer;
  }
  return nullptr;
}

void PullMemory::Remember(uint64_t sequence, uint64_t step, SharedKeys list,
                          std::span<const float> weights) {
  Answer answer;
  if (answers_.size() == kAnswers) {  // its memory is used again
    answer = std::move(answers_.front());
    answers_.pop_front();
  }
  answer.sequence = sequence;
  answer.step = step;
  answer.list = std::move(list);
  answer.weights.assign(weights.begin(), weights.end());
  answers_.push_back(std::move(answer));
}

}  // namespace millrace::ps
