// SPDX-License-Identifier: Apache-2.0
#include "ps/server/reply_cache.h"

#include <utility>

namespace millrace::ps {
namespace {

constexpr size_t kReplies = 3;
constexpr size_t kMaxKeptKeys = 32 << 20;

}  // namespace

SharedKeys ReplyCache::FindList(uint64_t signature) const {
  for (const Reply& reply : replies_) {
    if (reply.list->signature == signature) return reply.list;
  }
  const auto kept = kept_.find(signature);
  return kept == kept_.end() ? nullptr : kept->second;
}

void ReplyCache::KeepList(SharedKeys list) {
  const size_t keys = list->keys.size();
  if (kept_keys_ + keys > kMaxKeptKeys) return;
  if (kept_.emplace(list->signature, std::move(list)).second) kept_keys_ += keys;
}

const ReplyCache::Reply* ReplyCache::Find(uint64_t sequence, uint64_t signature) const {
  for (const Reply& reply : replies_) {
    if (reply.sequence == sequence && reply.list->signature == signature) return &reply;
  }
  return nullptr;
}

void ReplyCache::Add(Reply reply) {
  if (replies_.size() == kReplies) replies_.pop_front();
  replies_.push_back(std::move(reply));
}

}  // namespace millrace::ps
