// SPDX-License-Identifier: Apache-2.0
// What a shard keeps of a worker's recent pulls: key lists, so that they are not sent again, and
// replies, so that a repeated call gets the same one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>

#include "io/base/pod_vector.h"
#include "ps/wire/float_codec.h"

namespace millrace::ps {

// Local keys of this shard, sorted and unique, and the signature of their encoded bytes.
struct KeyList {
  uint64_t signature = 0;
  PodVector<uint64_t> keys;
};
// Shared by the cache, a pending push, and the thread that serves the call.
using SharedKeys = std::shared_ptr<const KeyList>;

// Shared by the cache and the thread that sends the reply.
using SharedNumbers = std::shared_ptr<PlainNumbers>;

// Bounded. Not thread-safe.
class ReplyCache {
 public:
  struct Reply {
    uint64_t sequence = 0;
    uint64_t step = 0;  // of the job, when the reply was made
    SharedKeys list;
    SharedNumbers weights;
  };

  // A list that was pulled before; null if it is unknown.
  SharedKeys FindList(uint64_t signature) const;
  // Keeps a list that the worker pulls again and again (its test data).
  void KeepList(SharedKeys list);

  // The reply to the same call; null if it is unknown. Valid until the next Add.
  const Reply* Find(uint64_t sequence, uint64_t signature) const;
  // Evicts the oldest reply if the cache is full. The weights must not change any more.
  void Add(Reply reply);

 private:
  std::deque<Reply> replies_;
  std::unordered_map<uint64_t, SharedKeys> kept_;
  size_t kept_keys_ = 0;
};

}  // namespace millrace::ps
