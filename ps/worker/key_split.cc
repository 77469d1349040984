// SPDX-License-Identifier: Apache-2.0
#include "ps/worker/key_split.h"

#include <algorithm>

#include "ps/wire/key_codec.h"

namespace millrace::ps {

void KeySplit::Assign(const Sharding& sharding, uint64_t batch, std::span<const uint64_t> keys) {
  is_set_ = true;
  batch_ = batch;
  size_ = keys.size();
  parts_.resize(sharding.shards());
  locals_.resize(sharding.shards());
  if (sharding.shards() == 1) {
    EncodeKeys(keys, parts_[0].encoded);
    parts_[0].keys = keys.size();
  } else {
    for (size_t s = 0; s < parts_.size(); ++s) {
      locals_[s].clear();
      parts_[s].positions.clear();
    }
    for (size_t i = 0; i < keys.size(); ++i) {
      const Sharding::Place place = sharding.Of(keys[i]);
      locals_[place.shard].push_back(place.local);
      parts_[place.shard].positions.push_back(static_cast<uint32_t>(i));
    }
    for (size_t s = 0; s < parts_.size(); ++s) {
      EncodeKeys(locals_[s], parts_[s].encoded);
      parts_[s].keys = locals_[s].size();
    }
  }
  for (Part& part : parts_) part.signature = ListSignature(part.encoded);
}

void KeySplit::Scatter(size_t shard, std::span<const float> all, PodVector<float>& part) const {
  const Part& p = parts_[shard];
  if (parts_.size() == 1) {
    part.assign(all.begin(), all.end());
    return;
  }
  const size_t arrays = size_ == 0 ? 0 : all.size() / size_;
  part.resize(arrays * p.keys);
  for (size_t a = 0; a < arrays; ++a) {
    for (size_t i = 0; i < p.keys; ++i) part[a * p.keys + i] = all[a * size_ + p.positions[i]];
  }
}

void KeySplit::Gather(size_t shard, std::span<const float> part, std::span<float> all) const {
  const Part& p = parts_[shard];
  if (parts_.size() == 1) {
    std::copy_n(part.begin(), std::min(part.size(), all.size()), all.begin());
    return;
  }
  const size_t arrays = size_ == 0 ? 0 : all.size() / size_;
  for (size_t a = 0; a < arrays; ++a) {
    for (size_t i = 0; i < p.keys; ++i) all[a * size_ + p.positions[i]] = part[a * p.keys + i];
  }
}

}  // namespace millrace::ps
