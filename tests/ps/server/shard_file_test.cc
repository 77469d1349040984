// SPDX-License-Identifier: Apache-2.0
#include "ps/server/shard_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "io/state/checkpoint_folder.h"
#include "io/state/state_file.h"
#include "tests/support/shard_fixture.h"
#include "tests/support/test_files.h"

namespace millrace::ps {
namespace {

TEST(ShardFile, RestoredShardContinuesBitForBit) {
  const test::TemporaryFolder folder;
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
    // A pending push for the next step is not part of the checkpoint.
    ASSERT_TRUE(shard->Receive(1, MakePush(6, 5, {1}, 1), 0).ok());
    ASSERT_TRUE(shard->Save({.id = 5, .chief_state = "the chief"}).ok());
    auto twin = Started(config);
    for (uint64_t n = 0; n < 9; ++n) step(*twin, n);

    ShardOptions again = options;
    again.num_workers = 2;
    Shard restored(again);
    ASSERT_TRUE(restored.Join(JoinOf(0, "h", config)).ok());
    EXPECT_EQ(restored.SavedCheckpoints(), std::vector<uint64_t>{5});
    ASSERT_TRUE(restored.Restore({.id = 5, .shards = 1}).ok());
    ASSERT_TRUE(restored.Join(JoinOf(1, "h", config)).ok());
    ASSERT_TRUE(restored.Open(0).ok());
    EXPECT_EQ(restored.restored().chief_state, "the chief");
    EXPECT_EQ(restored.worker(1).received, 5u);
    EXPECT_EQ(restored.worker(1).received_state, "state 5");
    for (uint64_t n = 5; n < 9; ++n) step(restored, n);
    for (uint64_t key = 0; key < 1000; ++key) EXPECT_EQ(Weight(restored, key), Weight(*twin, key));
  }
}

// A gradient that is pending in a step that the job completes without it is not in the checkpoint.
TEST(ShardFile, PendingGradientDoesNotBlockAfterARestore) {
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
  ASSERT_TRUE(restored.Restore({.id = 1, .shards = 1}).ok());
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
  ASSERT_TRUE(
      again.Restore({.id = 5, .shards = 1}).ok());  // another shard does not have the newer one
  EXPECT_EQ(again.SavedCheckpoints(), (std::vector<uint64_t>{8, 5}));
  ASSERT_TRUE(again.Open(0).ok());
  ASSERT_TRUE(again.Save({.id = 7, .committed = 5}).ok());
  EXPECT_EQ(again.SavedCheckpoints(), (std::vector<uint64_t>{7, 5}));
}

// The reply to the first call was lost; pushes have continued since.
TEST(ShardFile, ARepeatedSaveOfAnAsyncJobKeepsThePushesThatWereHeld) {
  const test::TemporaryFolder folder;
  auto shard = Started(Config(Mode::kAsync, 1), {.num_workers = 1, .checkpoints = folder.path()});
  const auto saved_push = [&](uint64_t id) {
    const auto part = sparse::ReadPartInfo(io::CheckpointPath(folder.path(), id));
    EXPECT_TRUE(part.ok()) << part.status().message();
    return part.ok() ? part->workers[0].sequence : 0;
  };
  ASSERT_TRUE(shard->Receive(0, MakePush(1, 0, {5}, 1), 0).ok());
  ASSERT_TRUE(shard->HoldPushes({}, 0).ok());
  ASSERT_TRUE(shard->Save({.id = 1}).ok());
  EXPECT_FALSE(shard->IsHeld(0, 2));
  ASSERT_TRUE(shard->Receive(0, MakePush(2, 1, {5}, 1), 0).ok());
  ASSERT_TRUE(shard->Save({.id = 1}).ok());
  EXPECT_EQ(saved_push(1), 1u);
  ASSERT_TRUE(shard->HoldPushes({}, 0).ok());
  ASSERT_TRUE(shard->Save({.id = 2}).ok());
  EXPECT_EQ(saved_push(2), 2u);
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
  ASSERT_TRUE(newer.Restore({.id = 5, .shards = 1}).ok() && newer.Open(0).ok());
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

// A shard of one worker after a step, and its checkpoint.
struct SavedShard {
  explicit SavedShard(const JobConfig& job) : config(job) {
    auto shard = Started(config, options);
    if (config.dense) {
      const std::vector<float> weights = {1, 2, 3}, g = {1, 1, 1};
      EXPECT_TRUE(shard->InitDense(0, 0, weights).ok());
      EXPECT_TRUE(shard->PushDense(0, {.sequence = 1, .rows = 1, .mean = g}).ok());
    }
    const Push push = config.dense ? MakePush(1, 0, {}, 0) : MakePush(1, 0, {5, 7}, 1);
    EXPECT_TRUE(shard->Receive(0, push, 0).ok());
    EXPECT_TRUE(ShardFile::Save(*shard, {.id = 1, .chief_state = "the chief"}).ok());
    bytes = test::ReadFile(path);
  }

  // A new process of the same shard.
  std::unique_ptr<Shard> Restarted() const {
    auto shard = std::make_unique<Shard>(options);
    EXPECT_TRUE(shard->Join(JoinOf(0, "host", config)).ok());
    return shard;
  }

  // Restores the checkpoint with these bytes, which is an error that changes nothing.
  void ExpectRefused(Shard& shard, const std::string& damaged) const {
    test::WriteFile(path, damaged);
    const Status status = ShardFile::Restore(shard, {.id = 1, .shards = 1});
    EXPECT_EQ(status.code(), Code::kCorrupt);
    EXPECT_EQ(status.message().find(path + ": "), 0u) << status.message();
    EXPECT_EQ(shard.progress().step, 0u);
    EXPECT_EQ(shard.restored().chief_state, "");
    EXPECT_EQ(shard.worker(0).received, 0u);
    if (shard.dense()) {
      EXPECT_EQ(shard.dense()->size(), 0u);
    } else {
      EXPECT_EQ(Weight(shard, 5), 0);
    }
  }

  const test::TemporaryFolder folder;
  const JobConfig config;
  const ShardOptions options = {.num_workers = 1, .checkpoints = folder.path()};
  const std::string path = io::CheckpointPath(folder.path(), 1);
  std::string bytes;
};

JobConfig DenseConfig() {
  JobConfig config = Config(Mode::kSync, 1);
  config.dense.emplace();
  return config;
}

TEST(ShardFile, EveryTruncationIsRefusedAndChangesNothing) {
  for (const JobConfig& config : {Config(Mode::kSync, 1, sparse::Rule::kFtrl), DenseConfig()}) {
    const SavedShard saved(config);
    const auto shard = saved.Restarted();
    for (size_t size = 0; size < saved.bytes.size(); ++size) {
      SCOPED_TRACE(size);
      saved.ExpectRefused(*shard, saved.bytes.substr(0, size));
    }
    test::WriteFile(saved.path, saved.bytes);
    ASSERT_TRUE(ShardFile::Restore(*shard, {.id = 1, .shards = 1}).ok());
    EXPECT_EQ(shard->progress().step, 1u);
    EXPECT_EQ(shard->restored().chief_state, "the chief");
  }
}

TEST(ShardFile, FlippedBitInAnyByteIsRefusedAndChangesNothing) {
  const SavedShard saved(Config(Mode::kSync, 1));
  const auto shard = saved.Restarted();
  for (size_t at = 0; at < saved.bytes.size(); ++at) {
    SCOPED_TRACE(at);
    std::string bytes = saved.bytes;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << at % 8));
    saved.ExpectRefused(*shard, bytes);
  }
}

// A valid state file with the fields of the checkpoint, one of which has another value.
void WriteChanged(const SavedShard& saved, const std::string& changed, const std::string& value,
                  uint64_t key, const std::vector<float>& numbers) {
  test::WriteFile(saved.path, saved.bytes);
  auto reader = io::StateReader::Open(saved.path);
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  io::StateFields fields;
  for (const auto& [name, old] : reader->fields().all()) {
    fields.Add(name, name == changed ? value : old);
  }
  auto writer = io::StateWriter::Create(saved.path, fields, {.floats_per_entry = numbers.size()});
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  writer->Add(key, numbers);
  ASSERT_TRUE(writer->Finish().ok());
}

TEST(ShardFile, FileOfAnotherKindOrShapeIsRefused) {
  const SavedShard saved(Config(Mode::kSync, 1));
  const auto shard = saved.Restarted();
  saved.ExpectRefused(*shard, "label,feature\n1,2\n");
  const auto refusal = [&](const std::string& changed, const std::string& value, uint64_t key,
                           const std::vector<float>& numbers) {
    WriteChanged(saved, changed, value, key, numbers);
    const Status status = ShardFile::Restore(*shard, {.id = 1, .shards = 1});
    EXPECT_EQ(shard->progress().step, 0u);
    EXPECT_EQ(Weight(*shard, 5), 0);
    return status.message();
  };
  EXPECT_EQ(refusal("kind", "model", 5, {1}),
            saved.path + ": expected a checkpoint, found kind model");
  EXPECT_EQ(refusal("shard", "1", 5, {1}),
            saved.path + ": header: expected a shard of at most 4096, found shard 1 of 1");
  EXPECT_EQ(refusal("shards", "2", 5, {1}),
            saved.path + ": expected part 0 of 1, found 0 of 2, or one of other workers");
  EXPECT_EQ(refusal("num_features", "999", 5, {1}),
            saved.path +
                ": num_features: this run has 1000, the checkpoint 999; a resumed run needs the "
                "options that it started with");
  EXPECT_EQ(refusal("", "", 5, {1, 2}), saved.path + ": expected 1 numbers a feature, found 2");
  EXPECT_NE(refusal("", "", 1000, {1}), "") << "a key outside the shard";
  EXPECT_NE(refusal("chief_state", "x0", 5, {1}), "") << "half a byte";
  WriteChanged(saved, "", "", 5, {1});
  EXPECT_TRUE(ShardFile::Restore(*shard, {.id = 1, .shards = 1}).ok())
      << "the same file without a fault";
  EXPECT_EQ(Weight(*shard, 5), 1);
}

// All parts of a checkpoint of two shards are read, and each key finds its new shard.
TEST(ShardFile, AnotherNumberOfShardsTakesItsKeysFromAllParts) {
  const test::TemporaryFolder folder;
  const auto join = [](Shard& shard, const JobConfig& config) {
    ASSERT_TRUE(shard.Join(JoinOf(0, "host", config)).ok());
  };
  const auto options = [&](size_t shard, size_t shards) {
    return ShardOptions{
        .shard = shard, .num_shards = shards, .checkpoints = io::PartFolder(folder.path(), shard)};
  };
  JobConfig two = Config(Mode::kSync, 1, sparse::Rule::kFtrl);
  two.num_shards = 2;
  for (size_t s = 0; s < 2; ++s) {
    Shard shard(options(s, 2));
    join(shard, two);
    ASSERT_TRUE(shard.Open(0).ok());
    // The local keys of global keys 0 to 9.
    std::vector<uint64_t> locals;
    const Sharding sharding(two.num_features, 2);
    for (uint64_t key = 0; key < 10; ++key) {
      if (sharding.Of(key).shard == s) locals.push_back(sharding.Of(key).local);
    }
    ASSERT_TRUE(shard.Receive(0, MakePush(1, 0, locals, 1), 0).ok());
    const Status saved = shard.Save({.id = 1, .chief_state = "the chief"});
    ASSERT_TRUE(saved.ok()) << saved.message();
  }
  for (const size_t shards : {size_t{1}, size_t{3}}) {
    JobConfig config = two;
    config.num_shards = shards;
    const Sharding sharding(config.num_features, shards);
    for (size_t s = 0; s < shards; ++s) {
      Shard shard(options(s, shards));
      join(shard, config);
      const Status status = shard.Restore({.id = 1, .shards = 2});
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(shard.progress().step, 1u);
      EXPECT_EQ(shard.restored().chief_state, "the chief");
      for (uint64_t key = 0; key < 20; ++key) {
        const Sharding::Place place = sharding.Of(key);
        if (place.shard != s) continue;
        EXPECT_EQ(Weight(shard, place.local) != 0, key < 10) << key;
      }
    }
  }
  std::filesystem::remove(io::CheckpointPath(folder / "shard-1", 1));
  Shard shard(options(0, 1));
  JobConfig one = two;
  one.num_shards = 1;
  join(shard, one);
  EXPECT_NE(shard.Restore({.id = 1, .shards = 2}).message().find("part 1 of the 2 of checkpoint 1"),
            std::string::npos);
}

}  // namespace
}  // namespace millrace::ps
