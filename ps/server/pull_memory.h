// What a worker has pulled, so that it need not say it twice and hears the same when it asks twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>

#include "io/base/pod_vector.h"
#include "ps/wire/plain_numbers.h"

namespace millrace::ps {

// Local keys of this shard, sorted and unique, under the signature of their encoded bytes.
struct KeyList {
  uint64_t signature = 0;
  PodVector<uint64_t> keys;
};
// Shared by the worker's recent answers, its push that waits for others, and the thread that serves
// the call.
using SharedKeys = std::shared_ptr<const KeyList>;

// Shared by an answer that is remembered and the thread that sends it.
using SharedNumbers = std::shared_ptr<PlainNumbers>;

// Bounded. Not thread-safe.
class PullMemory {
 public:
  struct Answer {
    uint64_t sequence = 0;
    uint64_t step = 0;  // of the job, then
    SharedKeys list;
    SharedNumbers weights;
  };

  // A list that was pulled before; null if it is not known (any more).
  SharedKeys FindList(uint64_t signature) const;
  // For a list that the worker asks for again and again (its test data).
  void KeepList(SharedKeys list);
  // Whose weights were given last, of those that are not kept; null before the first.
  SharedKeys last_list() const { return answers_.empty() ? nullptr : answers_.back().list; }

  // The answer to that very call; null if it is not known. Valid until the next Remember.
  const Answer* Find(uint64_t sequence, uint64_t signature) const;
  // Room for the next answer's weights: that of an answer which is forgotten for it, mostly.
  SharedNumbers Room();
  // The last few answers are kept; their weights must not change any more.
  void Remember(Answer answer);

 private:
  std::deque<Answer> answers_;
  std::unordered_map<uint64_t, SharedKeys> kept_;
  size_t kept_keys_ = 0;
};

}  // namespace millrace::ps
