// SPDX-License-Identifier: Apache-2.0
#include "ps/server/shard_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/support/shard_fixture.h"
#include "tests/support/test_files.h"

namespace millrace::ps {
namespace {

// Training goes on from a checkpoint bit by bit as it would have without it.
TEST(Shard, ARestoredShardGoesOnAsTheFirstWould) {
  const millrace::test::TemporaryFolder folder;
  for (const auto rule : {sparse::Rule::kSgd, sparse::Rule::kFtrl, sparse::Rule::kAdam}) {
    SCOPED_TRACE(sparse::RuleName(rule));
    ShardOptions options;
    options.checkpoints = folder / sparse::RuleName(rule);
    const JobConfig config = Config(Mode::kSync, 2, rule);
    auto shard = Started(config, options);
    const auto step = [](Shard& s, uint64_t n) {
      for (const size_t worker : {0, 1}) {
        const float g = 0.25f * static_cast<float>(n + worker + 1);
        ASSERT_TRUE(s.Receive(worker, MakePush(n + 1, n, {n, n + 1, 500}, g), 0).ok());
      }
    };
    for (uint64_t n = 0; n < 5; ++n) step(*shard, n);
    // A push for the next step that waits is no part of the checkpoint.
    ASSERT_TRUE(shard->Receive(1, MakePush(6, 5, {1}, 1), 0).ok());
    ASSERT_TRUE(shard->Save({.id = 5, .chief_state = "the chief"}).ok());
    auto twin = Started(config);
    for (uint64_t n = 0; n < 9; ++n) step(*twin, n);

    ShardOptions again = options;
    again.num_workers = 2;
    Shard restored(again);
    ASSERT_TRUE(restored.Join(JoinOf(0, "h", config)).ok());
    EXPECT_EQ(restored.SavedCheckpoints(), std::vector<uint64_t>{5});
    ASSERT_TRUE(restored.Restore(5).ok());
    ASSERT_TRUE(restored.Join(JoinOf(1, "h", config)).ok());
    ASSERT_TRUE(restored.Open(0).ok());
    EXPECT_EQ(restored.chief_state(), "the chief");
    EXPECT_EQ(restored.worker(1).received, 5u);
    EXPECT_EQ(restored.worker(1).received_state, "state 5");
    for (uint64_t n = 5; n < 9; ++n) step(restored, n);
    for (uint64_t key = 0; key < 1000; ++key) EXPECT_EQ(Weight(restored, key), Weight(*twin, key));
  }
}

TEST(Shard, ADamagedCheckpointOrOneOfAnotherJobChangesNothing) {
  const millrace::test::TemporaryFolder folder;
  ShardOptions options;
  options.checkpoints = folder / "c";
  auto shard = Started(Config(Mode::kSync, 1), options);
  ASSERT_TRUE(shard->Receive(0, MakePush(1, 0, {5}, 1), 0).ok());
  ASSERT_TRUE(shard->Save({.id = 1}).ok());
  JobConfig other = Config(Mode::kSync, 1);
  other.num_features = 2000;
  Shard wrong_job(options);
  ASSERT_TRUE(wrong_job.Join(JoinOf(0, "h", other)).ok());
  EXPECT_NE(wrong_job.Restore(1).message().find("num_features"), std::string::npos);

  const std::string path = options.checkpoints + "/checkpoint-000000000001";
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-30, std::ios::end);
  file.put('\x55');
  file.close();
  Shard same(options);
  ASSERT_TRUE(same.Join(JoinOf(0, "h", Config(Mode::kSync, 1))).ok());
  EXPECT_FALSE(same.Restore(1).ok());
  EXPECT_EQ(Weight(same, 5), 0);
  EXPECT_EQ(same.progress().step, 0u);
}

// One that waits for its step while the job goes on without it is not in the checkpoint.
TEST(Shard, NoWorkerIsBlockedOnAGradientThatWasPendingBeforeTheRestart) {
  const test::TemporaryFolder folder;
  JobConfig config = Config(Mode::kSync, 3);
  config.replicas_to_aggregate = 2;
  config.dense.emplace();
  const ShardOptions options = {.num_workers = 3, .checkpoints = folder.path()};
  auto shard = Started(config, options);
  const std::vector<float> weights = {1}, g = {1};
  ASSERT_TRUE(shard->InitDense(0, 0, weights).ok());
  ASSERT_TRUE(shard->PushDense(0, {.worker = 2, .sequence = 1, .rows = 1, .mean = g}).ok());
  for (const size_t worker : {2, 1})
    ASSERT_TRUE(shard->Receive(worker, MakePush(1, 0, {}, 0), 0).ok());
  EXPECT_EQ(shard->progress().step, 1u);
  ASSERT_FALSE(shard->DenseReady(2, 0, 1));
  const Status saved = shard->Save({.id = 1});
  ASSERT_TRUE(saved.ok()) << saved.message();
  Shard restored(options);
  for (size_t w = 0; w < 3; ++w) {
    ASSERT_TRUE(restored.Join(JoinOf(w, "", config)).ok());
  }
  ASSERT_TRUE(restored.Restore(1).ok());
  EXPECT_EQ(restored.worker(2).received, 1u);
  EXPECT_TRUE(restored.DenseReady(2, 0, 1));
  EXPECT_TRUE(restored.InitDense(0, 0, weights).ok());
  EXPECT_EQ(restored.InitDense(0, 1, weights).message(),
            "dense block 1: not in the checkpoint, whose net was cut differently");
}

// A checkpoint that not all shards have is of no use, but nothing shows that before the next one is
// complete everywhere.
TEST(ShardFile, OnlyTheNextCheckpointRemovesOthersAndNeverTheCommittedOne) {
  const test::TemporaryFolder folder;
  const JobConfig config = Config(Mode::kAsync, 1);
  ShardOptions options = {.num_workers = 1, .checkpoints = folder.path()};
  auto shard = Started(config, options);
  ASSERT_TRUE(shard->Save({.id = 5}).ok());
  ASSERT_TRUE(shard->Save({.id = 8, .committed = 5}).ok());
  options.instance = 2;
  Shard again(options);
  ASSERT_TRUE(again.Join(JoinOf(0, "", config, false, /*epoch=*/2)).ok());
  ASSERT_TRUE(again.Restore(5).ok());  // another shard does not have the newer one
  EXPECT_EQ(again.SavedCheckpoints(), (std::vector<uint64_t>{8, 5}));
  ASSERT_TRUE(again.Open(0).ok());
  ASSERT_TRUE(again.Save({.id = 7, .committed = 5}).ok());
  EXPECT_EQ(again.SavedCheckpoints(), (std::vector<uint64_t>{7, 5}));
}

// A server that was suspended while its job was resumed by another one.
TEST(ShardFile, AServerWhoseJobWasResumedElsewhereChangesNothing) {
  const test::TemporaryFolder folder;
  const JobConfig config = Config(Mode::kAsync, 1);
  ShardOptions options = {.num_workers = 1, .checkpoints = folder.path()};
  auto suspended = Started(config, options);
  ASSERT_TRUE(suspended->Save({.id = 5}).ok());
  options.instance = 2;
  Shard newer(options);
  ASSERT_TRUE(newer.Join(JoinOf(0, "", config, false, /*epoch=*/2)).ok());
  ASSERT_TRUE(newer.Restore(5).ok() && newer.Open(0).ok());
  ASSERT_TRUE(newer.Save({.id = 9, .committed = 5}).ok());
  const Status saved = suspended->Save({.id = 7, .committed = 6});
  EXPECT_EQ(saved.code(), Code::kInvalid);
  EXPECT_NE(saved.message().find("belongs to epoch 2 of its run now, this process to epoch 1"),
            std::string::npos)
      << saved.message();
  EXPECT_EQ(newer.SavedCheckpoints(), (std::vector<uint64_t>{9, 5}));
}

TEST(ShardFile, OneServerPerShardAndEpoch) {
  const test::TemporaryFolder folder;
  const JobConfig config = Config(Mode::kAsync, 1);
  ShardOptions options = {.num_workers = 1, .checkpoints = folder.path()};
  auto first = Started(config, options);
  options.instance = 2;
  Shard second(options);
  ASSERT_TRUE(second.Join(JoinOf(0, "", config)).ok());
  const Status opened = second.Open(0);
  EXPECT_EQ(opened.code(), Code::kInvalid);
  EXPECT_NE(opened.message().find("epoch 1"), std::string::npos) << opened.message();
  EXPECT_TRUE(first->Save({.id = 1}).ok());
}

}  // namespace
}  // namespace millrace::ps
