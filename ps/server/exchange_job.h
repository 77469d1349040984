// One exchange on the server's side, in steps: those that need the shard, and those that are done
// while others have it.
#pragma once

#include <cstdint>
#include <string>

#include "io/base/pod_vector.h"
#include "io/base/status.h"
#include "ps/server/shard.h"
#include "ps/wire/float_codec.h"
#include "ps/wire/key_codec.h"
#include "ps/wire/messages.h"

namespace millrace::ps {

// Belongs to one connection and is used again for each of its calls. Not thread-safe.
//
//   FindLists (shard) -> Decode -> Take (shard) -> Ready (shard, until true)
//                     -> Answer (shard) -> Encode
//   and then DecodeNext -> LookAhead (shard, if looks_ahead)
class ExchangeJob {
 public:
  explicit ExchangeJob(size_t worker) : worker_(worker) {}

  // Looks up the lists that came without their keys. False: one of them is not known.
  bool FindLists(const Shard& shard, const ExchangeRequest& request);
  // Keys and gradient; `local_features` is the shard's.
  Status Decode(const ExchangeRequest& request, uint64_t local_features);
  Status Take(Shard& shard, const ExchangeRequest& request, int64_t now_ns);
  bool Ready(const Shard& shard, const ExchangeRequest& request) const {
    return shard.MayAnswer(worker_, request.sequence);
  }
  Status Answer(Shard& shard, const ExchangeRequest& request, ExchangeReply& reply);
  // The reply's weights; they stay valid until the next call.
  Status Encode(const ExchangeRequest& request, bool zstd, ExchangeReply& reply);
  // When the answer is on its way: the keys of the list that will be pulled next.
  Status DecodeNext(const ExchangeRequest& request, uint64_t local_features);
  // Whether the shard has something to do then, too.
  bool looks_ahead() const { return alone_; }
  Status LookAhead(Shard& shard) { return shard.LookAhead(worker_, next_list_); }

 private:
  size_t worker_;
  KeyDecoder key_decoder_;
  FloatCodec floats_;
  SharedKeys push_list_, pull_list_;  // the latter stays for a call that asks again
  SharedKeys next_list_;
  bool alone_ = false;  // this worker makes the steps
  PodVector<float> gradient_;
  SharedNumbers weights_;
  std::string packed_;
};

}  // namespace millrace::ps
