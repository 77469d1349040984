// SPDX-License-Identifier: Apache-2.0
// The server's side of an exchange: decodes the request, hands the push to the shard, waits until
// the reply is due, and encodes it.
#pragma once

#include <cstdint>
#include <string>

#include "io/base/pod_vector.h"
#include "io/base/status.h"
#include "ps/number_layout.h"
#include "ps/server/shard_access.h"
#include "ps/wire/float_codec.h"
#include "ps/wire/key_codec.h"
#include "ps/wire/messages.h"

namespace millrace::ps {

// Belongs to one connection of a worker and is reused for each of its exchanges. Decoding and
// encoding happen without the shard's lock. Not thread-safe.
class ExchangeHandler {
 public:
  // With the lock. `access` outlives the handler.
  ExchangeHandler(ShardAccess& access, size_t worker, uint64_t generation);

  // The whole exchange. The reply's weights stay valid until the next call. Errors: kInvalid and
  // kCorrupt if the request is refused, others if the job has failed.
  Status Handle(const ExchangeRequest& request, ExchangeReply& reply);

  // The first half of Handle, up to the push; it does not wait for other workers. `reply.outcome`
  // is kDone if the push was received. Handle may follow with the same request.
  Status Accept(const ExchangeRequest& request, ExchangeReply& reply);

 private:
  // Looks up the lists whose keys the request leaves out. False: one of them is unknown.
  bool FindLists(const ExchangeRequest& request);
  Status Decode(const ExchangeRequest& request, const KeyBounds& bounds,
                const NumberLayout& layout);
  Status WaitWhileHeld(const ExchangeRequest& request, ExchangeReply& reply);
  Status Receive(const ExchangeRequest& request);
  Status WaitUntilDue(const ExchangeRequest& request, ExchangeReply& reply);
  Status FillReply(const ExchangeRequest& request, ExchangeReply& reply);
  Status Encode(const ExchangeRequest& request, bool zstd, ExchangeReply& reply);
  // With the lock: waits until the shard is free, then checks the caller. `reply` says that it is
  // blocked while a checkpoint keeps the shard busy.
  Status Enter(ExchangeReply& reply);
  Status CheckCaller();

  ShardAccess& access_;
  const size_t shard_number_;
  const size_t worker_;
  const uint64_t generation_;
  KeyDecoder key_decoder_;
  FloatCodec floats_;
  SharedKeys push_list_, pull_list_;  // the latter stays for a repeated call
  PodVector<float> gradient_;
  SharedNumbers weights_;
  std::string packed_;
};

}  // namespace millrace::ps
