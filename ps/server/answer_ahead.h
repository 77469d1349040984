// A worker's next answer, made as far as possible before it is asked for.
//
// Where one worker alone makes a step, nothing else can change the weights between an answer and
// the next one. So when a server has answered it gathers the weights that the worker will ask for
// next, and looks where they are the ones that its gradient will change. When the gradient comes
// only those are left to be computed; the answer goes out, and then the gradient is applied.
#pragma once

#include <cstdint>
#include <span>

#include "io/base/pod_vector.h"
#include "io/base/status.h"
#include "ps/server/key_overlap.h"
#include "ps/server/pull_memory.h"
#include "sparse/local_store.h"

namespace millrace::ps {

// Not thread-safe.
class AnswerAhead {
 public:
  // The weights of `pull` as they will be after a push of `push`, into `room`.
  Status Prepare(const sparse::LocalStore& store, SharedKeys push, SharedKeys pull,
                 SharedNumbers room);
  // Whether that is done, for these very lists and the store as it is.
  bool IsFor(const sparse::LocalStore& store, const SharedKeys& push, const SharedKeys& pull) const;
  // A gradient is about to be applied to the store as the next push. True: the answer is complete.
  // False: it was not prepared for that.
  bool Complete(const sparse::LocalStore& store, const SharedKeys& push,
                std::span<const float> gradient);
  // The weights of `pull` (or a list with the same keys, which another connection may have sent)
  // after so many pushes, if they are complete; null if not. Once.
  SharedNumbers Take(uint64_t steps, const SharedKeys& pull);
  // Room for another answer, if nobody needs what is there; null if there is none.
  SharedNumbers TakeRoom() { return std::move(weights_); }

 private:
  SharedKeys push_, pull_;
  SharedNumbers weights_;
  uint64_t steps_ = 0;     // of the store with the push
  bool complete_ = false;  // the push's gradient has come
  KeyOverlap overlap_;     // of push_ and pull_

  PodVector<uint64_t> keys_;  // of the overlap
  PodVector<float> gradient_, touched_;
};

}  // namespace millrace::ps
