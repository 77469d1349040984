// SPDX-License-Identifier: Apache-2.0
// Shards of small jobs, and pushes to them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ps/server/shard.h"

namespace millrace::ps {

inline JobConfig Config(Mode mode, size_t workers, sparse::Rule rule = sparse::Rule::kSgd) {
  JobConfig config;
  config.mode = mode;
  config.num_workers = workers;
  config.num_features = 1000;
  config.update.rule = rule;
  config.update.rate = 1;
  return config;
}

inline JoinRequest JoinOf(size_t worker, const std::string& name, const JobConfig& config,
                          bool rejoin = false, uint64_t epoch = 1) {
  JoinRequest request;
  request.epoch = worker == 0 ? epoch : 0;
  request.worker = worker;
  request.name = name;
  request.config = config.Fields().Encode();
  request.rejoin = rejoin;
  return request;
}

inline std::unique_ptr<Shard> Started(const JobConfig& config, ShardOptions options = {}) {
  options.num_workers = config.num_workers;
  auto shard = std::make_unique<Shard>(options);
  for (size_t w = 0; w < config.num_workers; ++w) {
    EXPECT_TRUE(shard->Join(JoinOf(w, "host", config)).ok());
  }
  EXPECT_TRUE(shard->Open(0).ok());
  EXPECT_EQ(shard->StartBlockedOn(), "");
  return shard;
}

inline SharedKeys List(const std::vector<uint64_t>& keys) {
  auto list = std::make_shared<KeyList>();
  list->signature = 1;
  for (const uint64_t key : keys) {
    list->keys.push_back(key);
    list->signature = list->signature * 31 + key;
  }
  return list;
}

inline Push MakePush(uint64_t sequence, uint64_t step, const std::vector<uint64_t>& keys, float g) {
  Push push;
  push.sequence = sequence;
  push.step = step;
  push.list = List(keys);
  push.gradient.assign(keys.size(), g);
  push.rows = 1;
  push.weight = 1;
  push.state = "state " + std::to_string(sequence);
  return push;
}

inline float Weight(Shard& shard, uint64_t key) {
  float w = 0;
  EXPECT_TRUE(shard.store().Pull({&key, 1}, {&w, 1}).ok());
  return w;
}

}  // namespace millrace::ps
