// SPDX-License-Identifier: Apache-2.0
#include "trainer/sparse/checkpoint.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "io/base/random.h"
#include "tests/support/empty_store.h"
#include "tests/support/test_files.h"
#include "trainer/model/model_file.h"

namespace millrace::trainer {
namespace {

using sparse::kRules;
using sparse::LocalStore;
using sparse::Rule;
using sparse::UpdateOptions;
using test::EmptyStore;

// Steps [begin, end) of a run that depends on the step's number alone.
void Train(LocalStore& store, int begin, int end, uint64_t max_key = 5000) {
  for (int step = begin; step < end; ++step) {
    Random random(static_cast<uint64_t>(step));
    std::vector<uint64_t> keys;
    std::vector<float> gradient;
    for (uint64_t key = random.Below(9); key < max_key; key += 1 + random.Below(50)) {
      keys.push_back(key);
      gradient.push_back(static_cast<float>(random.Uniform() - .5));
    }
    ASSERT_TRUE(store.Push(keys, gradient, {}).ok());
  }
}

// All bits of the state.
std::vector<uint64_t> Bits(const LocalStore& store) {
  std::vector<uint64_t> bits = {store.steps()};
  store.ForEach([&](uint64_t key, std::span<const float> state) {
    bits.push_back(key);
    for (const float number : state) bits.push_back(std::bit_cast<uint32_t>(number));
  });
  return bits;
}

TrainingState StateAt(uint64_t steps) {
  TrainingState state;
  state.steps = steps;
  state.examples = 100 * steps;
  state.seconds = 1.0 / 3;
  state.own = {.batches = 8,
               .examples = 9,
               .input_fingerprint = ~uint64_t{0},
               .segments = {{.position = {.epoch = 3, .rows = 12345}}}};
  state.row_loss = .1;
  state.row_weight = .2;
  state.total_loss = 1e300;
  state.total_weight = .3;
  state.row_own_examples = 10;
  state.row_own_correct = 11;
  state.evaluations = 4;
  state.evaluated_at = 5;
  state.own_weight = 12.5;
  state.own_positive = 2.25;
  state.early_stop = {.metric = "auc",
                      .best = .75,
                      .best_step = 6,
                      .best_examples = 600,
                      .best_metrics = "{\"auc\":0.75}",
                      .evaluations_since_best = 7};
  state.lowest_logloss = .5;
  state.lowest_logloss_step = 3;
  state.lowest_logloss_loss = .6;
  return state;
}

// As a new process.
Status Save(const std::string& folder, const LocalStore& store, const TrainingState& state,
            const std::string& data = "batch_size=100 seed=1") {
  RunCheckpoints checkpoints(folder, data);
  std::filesystem::path manifest = folder + "/manifest";
  if (std::filesystem::exists(manifest)) {
    const auto latest = checkpoints.LoadLatest(store);
    RETURN_IF_ERROR(latest.status());
  }
  return checkpoints.Save(store, state);
}

Result<LatestCheckpoint> Load(const std::string& folder, const LocalStore& like,
                              const std::string& data = "batch_size=100 seed=1") {
  return RunCheckpoints(folder, data).LoadLatest(like);
}

std::set<std::string> Names(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.insert(entry.path().filename());
  }
  return names;
}

TEST(Checkpoint, ResumedRunGivesTheSameBits) {
  for (const uint64_t num_features : {uint64_t{0}, uint64_t{5000}}) {
    for (const Rule rule : kRules) {
      SCOPED_TRACE(std::string(sparse::RuleName(rule)) + " " + std::to_string(num_features));
      const test::TemporaryFolder folder;
      const auto undisturbed = EmptyStore(num_features, {.rule = rule});
      Train(*undisturbed, 0, 40);
      const auto first = EmptyStore(num_features, {.rule = rule});
      Train(*first, 0, 17);
      ASSERT_TRUE(Save(folder / "new/checkpoints", *first, StateAt(17)).ok());
      const auto second = EmptyStore(num_features, {.rule = rule});
      const auto latest = Load(folder / "new/checkpoints", *second);
      ASSERT_TRUE(latest.ok()) << latest.status().message();
      EXPECT_EQ(Bits(*latest->store), Bits(*first));
      Train(*latest->store, 17, 40);
      EXPECT_EQ(Bits(*latest->store), Bits(*undisturbed));
    }
  }
}

TEST(Checkpoint, AsAModelItKnowsHowItsInputIsWritten) {
  const test::TemporaryFolder folder;
  io::RowFormat input = {io::InputFormat::kLibsvm, {}};
  input.rows.index_base = 1;
  RunCheckpoints checkpoints(folder.path(), "", input);
  ASSERT_TRUE(checkpoints.Save(*EmptyStore(100), StateAt(17)).ok());
  const auto model = LoadModel(folder / "shard-0/checkpoint-000000000017");
  ASSERT_TRUE(model.ok() && model->info().input);
  EXPECT_EQ(model->info().input->format, io::InputFormat::kLibsvm);
  EXPECT_EQ(model->info().input->rows.index_base, 1);
}

TEST(Checkpoint, TrainingStateRoundTrips) {
  const test::TemporaryFolder folder;
  const auto store = EmptyStore(100);
  ASSERT_TRUE(Save(folder.path(), *store, StateAt(17)).ok());
  const auto latest = Load(folder.path(), *store);
  ASSERT_TRUE(latest.ok() && latest->state);
  const TrainingState expected = StateAt(17), &found = *latest->state;
  EXPECT_EQ(found.steps, expected.steps);
  EXPECT_EQ(found.examples, expected.examples);
  EXPECT_EQ(found.seconds, expected.seconds);
  EXPECT_EQ(found.own.Encode(), expected.own.Encode());
  EXPECT_EQ(found.row_loss, expected.row_loss);
  EXPECT_EQ(found.row_weight, expected.row_weight);
  EXPECT_EQ(found.total_loss, expected.total_loss);
  EXPECT_EQ(found.total_weight, expected.total_weight);
  EXPECT_EQ(found.row_own_examples, expected.row_own_examples);
  EXPECT_EQ(found.row_own_correct, expected.row_own_correct);
  EXPECT_EQ(found.evaluations, expected.evaluations);
  EXPECT_EQ(found.evaluated_at, expected.evaluated_at);
  EXPECT_EQ(found.early_stop.best, expected.early_stop.best);
  EXPECT_EQ(found.early_stop.best_step, expected.early_stop.best_step);
  EXPECT_EQ(found.early_stop.metric, expected.early_stop.metric);
  EXPECT_EQ(found.early_stop.best_examples, expected.early_stop.best_examples);
  EXPECT_EQ(found.early_stop.best_metrics, expected.early_stop.best_metrics);
  EXPECT_EQ(found.own_weight, expected.own_weight);
  EXPECT_EQ(found.own_positive, expected.own_positive);
  EXPECT_EQ(found.lowest_logloss, expected.lowest_logloss);
  EXPECT_EQ(found.lowest_logloss_step, expected.lowest_logloss_step);
  EXPECT_EQ(found.lowest_logloss_loss, expected.lowest_logloss_loss);
  EXPECT_EQ(found.early_stop.evaluations_since_best, expected.early_stop.evaluations_since_best);
  EXPECT_TRUE(latest->warnings.empty());
}

TEST(Checkpoint, NoBestYetStaysNan) {
  const test::TemporaryFolder folder;
  const auto store = EmptyStore(100);
  ASSERT_TRUE(Save(folder.path(), *store, {}).ok());
  const auto latest = Load(folder.path(), *store);
  ASSERT_TRUE(latest.ok() && latest->state);
  EXPECT_TRUE(std::isnan(latest->state->early_stop.best));
}

TEST(Checkpoint, AnEmptyOrAbsentFolderHasNone) {
  const test::TemporaryFolder folder;
  const auto store = EmptyStore(100);
  for (const std::string& path : {folder.path(), folder / "absent"}) {
    const auto latest = Load(path, *store);
    ASSERT_TRUE(latest.ok());
    EXPECT_FALSE(latest->state);
  }
}

TEST(Checkpoint, NewestTwoCheckpointsStay) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "shard-0");
  test::WriteFile(folder / "shard-0/checkpoint-notes.txt", "mine");
  const auto store = EmptyStore(100);
  RunCheckpoints checkpoints(folder.path(), "");
  for (const uint64_t steps : {1, 2, 30, 1000}) {
    ASSERT_TRUE(checkpoints.Save(*store, StateAt(steps)).ok());
  }
  EXPECT_EQ(Names(folder / "shard-0"),
            (std::set<std::string>{"checkpoint-000000000030", "checkpoint-000000001000",
                                   "checkpoint-notes.txt", "manifest"}));
}

TEST(Checkpoint, AFolderWithProgressIsNotTakenByANewRun) {
  const test::TemporaryFolder folder;
  const auto store = EmptyStore(100);
  ASSERT_TRUE(Save(folder.path(), *store, StateAt(20)).ok());
  const Status status = RunCheckpoints(folder.path(), "").Save(*store, StateAt(3));
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_NE(status.message().find("has checkpoint 20 of an earlier run"), std::string::npos);
}

TEST(Checkpoint, LeftoversOfAKilledProcessAreIgnoredAndRemoved) {
  const test::TemporaryFolder folder;
  const auto store = EmptyStore(100);
  std::filesystem::create_directories(folder / "shard-0");
  const std::string leftover = folder / "shard-0/checkpoint-000000000009.tmp-123-0";
  test::WriteFile(leftover, "half");
  EXPECT_FALSE(Load(folder.path(), *store)->state);
  ASSERT_TRUE(Save(folder.path(), *store, StateAt(3)).ok());
  EXPECT_FALSE(std::filesystem::exists(leftover));
}

TEST(Checkpoint, CorruptCheckpointIsReplacedByTheOneBeforeWithAWarning) {
  const test::TemporaryFolder folder;
  const auto store = EmptyStore(5000);
  Train(*store, 0, 10);
  ASSERT_TRUE(Save(folder.path(), *store, StateAt(10)).ok());
  const auto expected = Bits(*store);
  Train(*store, 10, 20);
  ASSERT_TRUE(Save(folder.path(), *store, StateAt(20)).ok());
  const std::string newest = folder / "shard-0/checkpoint-000000000020";
  const std::string bytes = test::ReadFile(newest);
  for (const size_t size : {size_t{0}, size_t{10}, bytes.size() / 2, bytes.size() - 1}) {
    SCOPED_TRACE(size);
    test::WriteFile(newest, bytes.substr(0, size));
    const auto other = EmptyStore(5000);
    const auto latest = Load(folder.path(), *other);
    ASSERT_TRUE(latest.ok()) << latest.status().message();
    EXPECT_EQ(latest->state->steps, 10u);
    ASSERT_EQ(latest->warnings.size(), 1u);
    EXPECT_EQ(latest->warnings[0].find(newest + ": offset " + std::to_string(size)), 0u);
    EXPECT_EQ(Bits(*latest->store), expected);
  }
}

TEST(Checkpoint, FolderOfCorruptCheckpointsIsAnError) {
  const test::TemporaryFolder folder;
  const auto store = EmptyStore(100);
  ASSERT_TRUE(Save(folder.path(), *store, StateAt(10)).ok());
  ASSERT_TRUE(Save(folder.path(), *store, StateAt(20)).ok());
  for (const char* id : {"10", "20"}) {
    test::WriteFile(folder / ("shard-0/checkpoint-0000000000" + std::string(id)), "MILLRACE");
  }
  const Status status = Load(folder.path(), *store).status();
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_EQ(status.message(),
            (folder / "shard-0/checkpoint-000000000020") +
                ": offset 8: expected 12 more bytes, found the end of the file: "
                "no checkpoint in " +
                folder.path() + " can be used; the run stays as it is. Start a new one elsewhere");
}

TEST(Checkpoint, AnotherOrderOfTheDataIsRefusedWithBothValues) {
  const test::TemporaryFolder folder;
  const auto store = EmptyStore(100);
  ASSERT_TRUE(Save(folder.path(), *store, StateAt(3)).ok());
  const Status status = Load(folder.path(), *store, "batch_size=100 seed=2").status();
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_NE(status.message().find("data: this run has seed=2, the checkpoint seed=1"),
            std::string::npos)
      << status.message();
}

TEST(Checkpoint, AnotherModelOrRuleIsRefusedWithBothValues) {
  const test::TemporaryFolder folder;
  const auto store = EmptyStore(5000, {.rule = Rule::kFtrl, .rate = .25, .l1 = 2});
  Train(*store, 0, 3);
  ASSERT_TRUE(Save(folder.path(), *store, StateAt(3)).ok());
  const auto message = [&](uint64_t num_features, const UpdateOptions& options) {
    const auto other = EmptyStore(num_features, options);
    const Status status = Load(folder.path(), *other).status();
    EXPECT_EQ(status.code(), Code::kInvalid);
    EXPECT_EQ(Bits(*other), std::vector<uint64_t>{0});
    return status.message();
  };
  const std::string path = (folder / "shard-0/checkpoint-000000000003") + ": ";
  const std::string end = "; a resumed run needs the options that it started with";
  const UpdateOptions same = {.rule = Rule::kFtrl, .rate = .25, .l1 = 2};
  EXPECT_EQ(message(6000, same),
            path + "num_features: this run has 6000, the checkpoint 5000" + end);
  EXPECT_EQ(message(5000, {.rule = Rule::kAdaGrad, .rate = .25}),
            path + "rule: this run has adagrad, the checkpoint ftrl" + end);
  EXPECT_EQ(message(5000, {.rule = Rule::kFtrl, .rate = .5, .l1 = 2}),
            path + "option.rate: this run has 0.5, the checkpoint 0.25" + end);
  auto without = sparse::LocalStore::Create({.num_features = 5000, .intercept = false}, same);
  ASSERT_TRUE(without.ok());
  EXPECT_EQ(Load(folder.path(), **without).status().message(),
            path + "intercept: this run has 0, the checkpoint 1" + end);
  EXPECT_EQ(message(5000, {.rule = Rule::kFtrl, .rate = .25}),
            path + "option.l1: this run has 0, the checkpoint 2" + end);
}

TEST(Checkpoint, FullDiskKeepsTheEarlierCheckpoints) {
  const test::TemporaryFolder folder;
  const auto store = EmptyStore(500000);
  Train(*store, 0, 10);
  ASSERT_TRUE(Save(folder.path(), *store, StateAt(10)).ok());
  const std::string before = test::ReadFile(folder / "shard-0/checkpoint-000000000010");
  Train(*store, 10, 20, 500000);
  rlimit old_limit{};
  getrlimit(RLIMIT_FSIZE, &old_limit);
  const auto old_handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {.rlim_cur = 100 << 10, .rlim_max = old_limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const Status status = Save(folder.path(), *store, StateAt(20));
  setrlimit(RLIMIT_FSIZE, &old_limit);
  signal(SIGXFSZ, old_handler);
  EXPECT_EQ(status.code(), Code::kIo);
  EXPECT_NE(status.message().find("cannot write " + (folder / "shard-0/checkpoint-000000000020")),
            std::string::npos)
      << status.message();
  EXPECT_EQ(Names(folder / "shard-0"),
            (std::set<std::string>{"checkpoint-000000000010", "manifest"}));
  EXPECT_EQ(test::ReadFile(folder / "shard-0/checkpoint-000000000010"), before);
}

TEST(Checkpoint, UnwritableFolderIsAnError) {
  const test::TemporaryFolder folder;
  test::WriteFile(folder / "file", "");
  EXPECT_FALSE(Save(folder / "file/below", *EmptyStore(10), {}).ok());
}

TEST(Checkpoint, WeightsOfACheckpointCanBeReadAsAModel) {
  const test::TemporaryFolder folder;
  const auto store = EmptyStore(5000);
  Train(*store, 0, 10);
  ASSERT_TRUE(Save(folder.path(), *store, StateAt(10)).ok());
  const auto model = LoadModel(folder / "shard-0/checkpoint-000000000010");
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->info().steps, 10u);
  EXPECT_EQ(model->info().examples, 1000u);
  store->ForEach(
      [&](uint64_t key, std::span<const float> state) { EXPECT_EQ(model->Weight(key), state[0]); });
}

TEST(DivideStreams, EveryStreamIsFinishedOnceAndTheNextEpochIsDivided) {
  ResumePoint first, second;
  first.examples = 10;
  first.segments = {{.shard = 0, .num_shards = 2, .position = {.epoch = 1, .rows = 5}}};
  second.examples = 5;
  second.segments = {{.shard = 1, .num_shards = 2, .position = {.epoch = 0, .rows = 7}}};
  const auto divided = DivideStreams({first.Encode(), second.Encode()}, 3);
  ASSERT_TRUE(divided.ok()) << divided.status().message();
  ASSERT_EQ(divided->size(), 3u);
  uint64_t examples = 0;
  for (size_t w = 0; w < 3; ++w) {
    const ResumePoint& point = (*divided)[w];
    examples += point.examples;
    ASSERT_EQ(point.segments.size(), w < 2 ? 2u : 1u);
    EXPECT_EQ(point.segments.back().shard, w);
    EXPECT_EQ(point.segments.back().num_shards, 3u);
    EXPECT_EQ(point.segments.back().position.epoch, 2u);
    if (w == 2) continue;
    EXPECT_EQ(point.segments[0].shard, w);
    EXPECT_EQ(point.segments[0].num_shards, 2u);
    EXPECT_EQ(point.segments[0].end_epoch, 2u);
  }
  EXPECT_EQ(examples, 15u);
  // Before the new partition has begun, another division changes only who finishes what.
  std::vector<std::string> states;
  for (const ResumePoint& point : *divided) states.push_back(point.Encode());
  const auto again = DivideStreams(states, 1);
  ASSERT_TRUE(again.ok());
  ASSERT_EQ((*again)[0].segments.size(), 3u);
  EXPECT_EQ((*again)[0].segments[2].position.epoch, 2u);
  EXPECT_EQ((*again)[0].segments[2].num_shards, 1u);
}

TEST(DivideStreams, AWorkerThatHasNotStartedHasItsWholeStreamLeft) {
  ResumePoint first;
  first.segments = {{.shard = 0, .num_shards = 2, .position = {.epoch = 0, .rows = 5}}};
  const auto divided = DivideStreams({first.Encode(), ""}, 1);
  ASSERT_TRUE(divided.ok());
  ASSERT_EQ((*divided)[0].segments.size(), 3u);
  EXPECT_EQ((*divided)[0].segments[1].shard, 1u);
  EXPECT_EQ((*divided)[0].segments[1].position.rows, 0u);
  EXPECT_FALSE(DivideStreams({"short"}, 1).ok());
}

}  // namespace
}  // namespace millrace::trainer
