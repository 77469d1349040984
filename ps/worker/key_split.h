// A batch's keys by shard, ready for the wire.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/base/pod_vector.h"
#include "ps/sharding.h"

namespace millrace::ps {

// Memory is used again. Not thread-safe.
class KeySplit {
 public:
  struct Part {
    std::string encoded;
    uint64_t signature = 0;
    size_t keys = 0;
    PodVector<uint32_t> positions;  // of its keys in the batch; empty with one shard
  };

  // `keys` are sorted and unique, fewer than 2^32.
  void Assign(const Sharding& sharding, std::span<const uint64_t> keys);
  void Clear() { is_set_ = heard_of_ = false; }

  // Whether it was made of these very keys, by place and number.
  bool Is(std::span<const uint64_t> keys) const {
    return is_set_ && keys_.data() == keys.data() && keys_.size() == keys.size();
  }
  // The shards have been sent its keys as those of the next list. Until the answer is there its
  // bytes are on the wire, for they may have to be sent again, and Assign must not be called.
  void SetHeardOf() { heard_of_ = on_wire_ = true; }
  bool heard_of() const { return heard_of_; }
  bool on_wire() const { return on_wire_; }
  void SetAnswered() { on_wire_ = false; }
  bool is_set() const { return is_set_; }
  size_t size() const { return keys_.size(); }
  Part& part(size_t shard) { return parts_[shard]; }
  const Part& part(size_t shard) const { return parts_[shard]; }

  // Numbers beside the batch's keys to numbers beside a part's, and back.
  void Take(size_t shard, std::span<const float> all, PodVector<float>& part) const;
  void Put(size_t shard, std::span<const float> part, std::span<float> all) const;

 private:
  std::span<const uint64_t> keys_;
  bool is_set_ = false, heard_of_ = false, on_wire_ = false;
  std::vector<Part> parts_;
  std::vector<PodVector<uint64_t>> locals_;
};

}  // namespace millrace::ps
