// A push on its way, by shard.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ps/wire/messages.h"
#include "sparse/weight_store.h"

namespace millrace::ps {

// Memory is used again: a push that is not present any more keeps its parts.
struct OutgoingPush {
  struct Part {
    uint64_t step = 0;  // whose weights the gradient was computed from
    uint64_t signature = 0;
    std::string keys, gradient;
  };

  bool present = false;
  bool list_known = false;  // the server has given its weights
  uint64_t sequence = 0;
  sparse::PushInfo info;
  std::string state;
  std::vector<Part> parts;

  // Views of `request` will show this push.
  void AddTo(size_t shard, ExchangeRequest& request) const {
    const Part& part = parts[shard];
    request.sequence = sequence;
    request.step = part.step;
    request.pushes = true;
    request.push_list = part.signature;
    request.push_keys = part.keys;
    request.gradient = part.gradient;
    request.rows = info.rows;
    request.weight = info.weight;
    request.loss = info.loss;
    request.state = state;
  }
};

}  // namespace millrace::ps
