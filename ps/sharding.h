// SPDX-License-Identifier: Apache-2.0
// The assignment of features to shards.
#pragma once

#include <cstddef>
#include <cstdint>

#include "io/base/random.h"
#include "io/batch/csr_batch.h"

namespace millrace::ps {

// Dense-index tables: each shard gets one of S neighbouring keys. A hash of their common number
// q = key / S decides which one, and q is the position of the key in its shard. So a shard is a
// dense array, its keys keep their order, and neither a hot field nor a stride in the keys
// overloads a shard:
//
//   shard = (key mod S + mix(q)) mod S,   local = q
//
// Hashed-key tables: a hash of the key; the local key is the key itself. The upper half of the hash
// is used, because the shard's own table takes the lower one.
//
// The intercept is on shard 0, and its local key is its key.
class Sharding {
 public:
  // `num_features` 0: a hashed-key table. `shards` is at least 1.
  Sharding(uint64_t num_features, size_t shards) : num_features_(num_features), shards_(shards) {}

  struct Place {
    size_t shard;
    uint64_t local;
  };
  Place Of(uint64_t key) const {
    if (key == io::kInterceptKey) return {0, key};
    if (num_features_ == 0) return {Reduce(Mix64(key)), key};
    const uint64_t q = key / shards_;
    const uint64_t shard = key - q * shards_ + Reduce(Mix64(q));
    return {shard >= shards_ ? shard - shards_ : shard, q};
  }
  // The inverse.
  uint64_t KeyOf(size_t shard, uint64_t local) const {
    if (num_features_ == 0 || local == io::kInterceptKey) return local;
    const uint64_t turn = Reduce(Mix64(local));
    return local * shards_ + (shard >= turn ? shard - turn : shard + shards_ - turn);
  }

  // Local keys but that of the intercept are below it; 0: any 64-bit key.
  uint64_t local_features() const { return (num_features_ + shards_ - 1) / shards_; }
  uint64_t num_features() const { return num_features_; }
  size_t shards() const { return shards_; }

 private:
  size_t Reduce(uint64_t hash) const { return ((hash >> 32) * shards_) >> 32; }

  uint64_t num_features_;
  uint64_t shards_;
};

}  // namespace millrace::ps
