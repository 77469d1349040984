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

SharedNumbers PullMemory::Room() {
  SharedNumbers room;
  if (answers_.size() == kAnswers) {
    room = std::move(answers_.front().weights);
    answers_.pop_front();
  }
  const bool free = room && room.use_count() == 1;
  return free ? room : std::make_shared<PlainNumbers>();
}

void PullMemory::Remember(Answer answer) {
  if (answers_.size() == kAnswers) answers_.pop_front();
  answers_.push_back(std::move(answer));
}

}  // namespace millrace::ps
