// SPDX-License-Identifier: Apache-2.0
// A batch's keys by shard, encoded for the wire.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/base/pod_vector.h"
#include "ps/sharding.h"

namespace millrace::ps {

// Memory is reused. Not thread-safe.
class KeySplit {
 public:
  struct Part {
    std::string encoded;
    uint64_t signature = 0;
    size_t keys = 0;
    size_t features = 0;            // keys without that of the intercept
    PodVector<uint32_t> positions;  // of its keys in the batch; empty with one shard
  };

  // `keys` are sorted and unique, fewer than 2^32. `batch` is the caller's number for them.
  void Assign(const Sharding& sharding, uint64_t batch, std::span<const uint64_t> keys);
  void Clear() { is_set_ = false; }

  bool is_set() const { return is_set_; }
  // Whether these are the keys of that batch; batch 0 stands for none.
  bool IsBatch(uint64_t batch) const { return is_set_ && batch_ == batch && batch != 0; }
  size_t size() const { return size_; }
  // Keys without that of the intercept.
  size_t features() const { return features_; }
  Part& part(size_t shard) { return parts_[shard]; }
  const Part& part(size_t shard) const { return parts_[shard]; }

  // Copies numbers between the order of the batch's keys and that of a shard's part. There may be
  // several numbers for each key, in as many arrays one behind the other, and behind them
  // `per_feature` numbers for each feature (NumberLayout). Without these, Gather copies only the
  // arrays that `all` has room for.
  void Scatter(size_t shard, std::span<const float> all, PodVector<float>& part,
               size_t per_feature = 0) const;
  void Gather(size_t shard, std::span<const float> part, std::span<float> all,
              size_t per_feature = 0) const;

 private:
  bool is_set_ = false;
  uint64_t batch_ = 0;
  size_t size_ = 0, features_ = 0;
  std::vector<Part> parts_;
  std::vector<PodVector<uint64_t>> locals_;
};

}  // namespace millrace::ps
