// SPDX-License-Identifier: Apache-2.0
#include "ps/worker/key_split.h"

#include <algorithm>

#include "ps/wire/key_codec.h"

namespace millrace::ps {

void KeySplit::Assign(const Sharding& sharding, uint64_t batch, std::span<const uint64_t> keys) {
  is_set_ = true;
  batch_ = batch;
  size_ = keys.size();
  features_ = io::FeatureKeys(keys).size();
  parts_.resize(sharding.shards());
  locals_.resize(sharding.shards());
  if (sharding.shards() == 1) {
    EncodeKeys(keys, parts_[0].encoded);
    parts_[0].keys = keys.size();
    parts_[0].features = features_;
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
      parts_[s].features = io::FeatureKeys(locals_[s]).size();
    }
  }
  for (Part& part : parts_) part.signature = ListSignature(part.encoded);
}

void KeySplit::Scatter(size_t shard, std::span<const float> all, PodVector<float>& part,
                       size_t per_feature) const {
  const Part& p = parts_[shard];
  if (parts_.size() == 1) {
    part.assign(all.begin(), all.end());
    return;
  }
  const size_t flat = all.size() - per_feature * features_;
  const size_t arrays = size_ == 0 ? 0 : flat / size_;
  part.resize(arrays * p.keys + per_feature * p.features);
  for (size_t a = 0; a < arrays; ++a) {
    for (size_t i = 0; i < p.keys; ++i) part[a * p.keys + i] = all[a * size_ + p.positions[i]];
  }
  if (per_feature == 0) return;
  float* block = part.data() + arrays * p.keys;
  for (size_t i = 0; i < p.features; ++i, block += per_feature) {
    std::copy_n(&all[flat + p.positions[i] * per_feature], per_feature, block);
  }
}

void KeySplit::Gather(size_t shard, std::span<const float> part, std::span<float> all,
                      size_t per_feature) const {
  const Part& p = parts_[shard];
  if (parts_.size() == 1) {
    std::copy_n(part.begin(), std::min(part.size(), all.size()), all.begin());
    return;
  }
  const size_t flat = all.size() - per_feature * features_;
  const size_t arrays = size_ == 0 ? 0 : flat / size_;
  for (size_t a = 0; a < arrays; ++a) {
    for (size_t i = 0; i < p.keys; ++i) all[a * size_ + p.positions[i]] = part[a * p.keys + i];
  }
  if (per_feature == 0) return;
  const float* block = part.data() + arrays * p.keys;
  for (size_t i = 0; i < p.features; ++i, block += per_feature) {
    std::copy_n(block, per_feature, &all[flat + p.positions[i] * per_feature]);
  }
}

}  // namespace millrace::ps
