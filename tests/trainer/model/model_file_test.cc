// SPDX-License-Identifier: Apache-2.0
#include "trainer/model/model_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "io/base/random.h"
#include "io/record/record_format.h"
#include "tests/support/empty_store.h"
#include "tests/support/random_problem.h"
#include "tests/support/test_files.h"

namespace millrace::trainer {
namespace {

using sparse::kRules;
using sparse::LocalStore;
using sparse::Rule;
using sparse::UpdateOptions;
using test::EmptyStore;

// A store that was trained on keys below 1000 and on the intercept.
std::unique_ptr<LocalStore> TrainedStore(uint64_t num_features, const UpdateOptions& options = {}) {
  auto store = EmptyStore(num_features, options);
  Random random(5);
  for (int step = 0; step < 20; ++step) {
    std::vector<uint64_t> keys;
    std::vector<float> gradient;
    for (uint64_t key = random.Below(9); key < 1000; key += 1 + random.Below(50)) {
      keys.push_back(key);
      gradient.push_back(test::Normalish(random));
    }
    keys.push_back(io::kInterceptKey);
    gradient.push_back(-0.5f);
    EXPECT_TRUE(store->Push(keys, gradient, {}).ok());
  }
  return store;
}

std::vector<float> WeightsOf(LocalStore& store) {
  std::vector<uint64_t> keys(1000);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  keys.push_back(io::kInterceptKey);
  std::vector<float> weights(keys.size());
  EXPECT_TRUE(store.Pull(keys, weights).ok());
  return weights;
}

std::vector<float> WeightsOf(const Model& model) {
  std::vector<float> weights;
  for (uint64_t key = 0; key < 1000; ++key) weights.push_back(model.Weight(key));
  weights.push_back(model.Weight(io::kInterceptKey));
  return weights;
}

TEST(ModelFile, WeightsComeBackBitByBit) {
  const test::TemporaryFolder folder;
  for (const uint64_t num_features : {uint64_t{0}, uint64_t{1000}, uint64_t{100000}}) {
    for (const Rule rule : kRules) {
      for (const ModelFormat format : {ModelFormat::kBinary, ModelFormat::kText}) {
        SCOPED_TRACE(std::string(sparse::RuleName(rule)) + " " + std::to_string(num_features));
        const auto store = TrainedStore(num_features, {.rule = rule});
        ASSERT_TRUE(SaveModel(*store, folder / "model", format, 77).ok());
        const auto model = LoadModel(folder / "model");
        ASSERT_TRUE(model.ok()) << model.status().message();
        EXPECT_EQ(WeightsOf(*model), WeightsOf(*store));
        EXPECT_EQ(model->info().num_features, num_features);
        EXPECT_EQ(model->info().rule, sparse::RuleName(rule));
        EXPECT_EQ(model->info().steps, 20u);
        EXPECT_EQ(model->info().examples, 77u);
        uint64_t weights = 0;
        model->ForEach([&](uint64_t, float) { ++weights; });
        EXPECT_EQ(model->info().weights, weights);
        EXPECT_GT(weights, 100u);
      }
    }
  }
}

TEST(ModelFile, OnlyWeightsThatAreNotZeroAreInIt) {
  const test::TemporaryFolder folder;
  const auto store = TrainedStore(1000, {.rule = Rule::kFtrl, .l1 = 1000});
  ASSERT_TRUE(SaveModel(*store, folder / "model", ModelFormat::kText).ok());
  EXPECT_EQ(test::ReadFile(folder / "model"),
            "# millrace model 1\n# num_features 1000\n# rule ftrl\n# steps 20\n# examples 0\n"
            "intercept\t" +
                io::NumberText(WeightsOf(*store).back()) + "\n# weights 1\n");
  EXPECT_EQ(LoadModel(folder / "model")->info().weights, 1u) << "L1 spares the intercept";
}

// Two weights and the intercept.
std::unique_ptr<LocalStore> SmallStore() {
  auto store = EmptyStore(1000, {.rule = Rule::kSgd});
  const float quarter = -.25f, small = 1.5e-5f, half = .5f;
  EXPECT_TRUE(store->Load(17, {&quarter, 1}).ok());
  EXPECT_TRUE(store->Load(905, {&small, 1}).ok());
  EXPECT_TRUE(store->Load(io::kInterceptKey, {&half, 1}).ok());
  return store;
}

TEST(ModelFile, TextIsAsDocumented) {
  const test::TemporaryFolder folder;
  const auto store = SmallStore();
  ASSERT_TRUE(SaveModel(*store, folder / "model", ModelFormat::kText, 5).ok());
  EXPECT_EQ(test::ReadFile(folder / "model"),
            "# millrace model 1\n# num_features 1000\n# rule sgd\n# steps 0\n# examples 5\n"
            "17\t-0.25\n905\t1.5e-05\nintercept\t0.5\n# weights 3\n");
}

TEST(ModelFile, CenteredModelsLoadAsTheyWere) {
  const test::TemporaryFolder folder;
  UpdateOptions options = {.rule = Rule::kSgd};
  options.centers = {{17, 1e9f}, {905, -3}};
  auto store = EmptyStore(1000, options);
  const float w = -.3f, small = 1.5e-5f, intercept = .1f;
  ASSERT_TRUE(store->Load(17, {&w, 1}).ok());
  ASSERT_TRUE(store->Load(905, {&small, 1}).ok());
  ASSERT_TRUE(store->Load(io::kInterceptKey, {&intercept, 1}).ok());
  for (const ModelFormat format : {ModelFormat::kBinary, ModelFormat::kText}) {
    ASSERT_TRUE(SaveModel(*store, folder / "model", format).ok());
    const auto model = LoadModel(folder / "model");
    ASSERT_TRUE(model.ok()) << model.status().message();
    ASSERT_EQ(model->info().centers.size(), 2u);
    EXPECT_EQ(model->info().centers[0].center, 1e9f);
    EXPECT_EQ(model->Weight(17), w);
    EXPECT_NEAR(model->Weight(io::kInterceptKey), intercept, 1e-7);
    auto same = EmptyStore(1000, options);
    ASSERT_TRUE(WarmStart(folder / "model", *same).ok());
    EXPECT_NEAR(WeightsOf(*same).back(), intercept, 1e-7) << "a start with the same centers";
    auto plain = EmptyStore(1000, {.rule = Rule::kSgd});
    ASSERT_TRUE(WarmStart(folder / "model", *plain).ok());
    EXPECT_FLOAT_EQ(WeightsOf(*plain).back(), .3e9f) << "rows as they are";
  }
  const std::string text = test::ReadFile(folder / "model");
  EXPECT_NE(text.find("\n# option.centers 17:1e+09 905:-3\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\nintercept\t300000012."), std::string::npos) << text;
}

TEST(ModelFile, KnowsHowItsInputIsWritten) {
  const test::TemporaryFolder folder;
  const auto store = SmallStore();
  ModelSource source = SourceOf(*store, 5);
  for (const ModelFormat format : {ModelFormat::kBinary, ModelFormat::kText}) {
    ASSERT_TRUE(SaveModel(source, folder / "model", format).ok());
    EXPECT_FALSE(LoadModel(folder / "model")->info().input);
    source.info.input = io::RowFormat{io::InputFormat::kCriteo, {}};
    source.info.input->rows.hash_bits = 22;
    ASSERT_TRUE(SaveModel(source, folder / "model", format).ok());
    const auto model = LoadModel(folder / "model");
    ASSERT_TRUE(model.ok() && model->info().input) << model.status().message();
    EXPECT_EQ(model->info().input->format, io::InputFormat::kCriteo);
    EXPECT_EQ(model->info().input->rows.hash_bits, 22);
    source.info.input.reset();
  }
  EXPECT_NE(test::ReadFile(folder / "model").find("# input.format criteo\n# input.hash_bits 22\n"),
            std::string::npos);
}

TEST(ModelFile, DenseNpyHasANumberForEachFeatureAndTheInterceptLast) {
  const test::TemporaryFolder folder;
  const auto store = TrainedStore(5000);
  ASSERT_TRUE(SaveModel(*store, folder / "model.npy", ModelFormat::kNpy).ok());
  const std::string bytes = test::ReadFile(folder / "model.npy");
  const size_t begin = bytes.size() - 5001 * sizeof(float);
  EXPECT_EQ(begin % 64, 0u);
  EXPECT_EQ(bytes.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  EXPECT_NE(bytes.find("{'descr': '<f4', 'fortran_order': False, 'shape': (5001,), }"),
            std::string::npos);
  const std::vector<float> weights = WeightsOf(*store);
  EXPECT_EQ(0, std::memcmp(&bytes[begin], weights.data(), 1000 * sizeof(float)));
  EXPECT_EQ(0, std::memcmp(&bytes[bytes.size() - sizeof(float)], &weights.back(), sizeof(float)));
}

TEST(ModelFile, NpyOfAHashedKeyModelHasKeysAndWeights) {
  const test::TemporaryFolder folder;
  const auto store = EmptyStore(0, {.rule = Rule::kSgd});
  const float half = .5f;
  ASSERT_TRUE(store->Load(~uint64_t{0}, {&half, 1}).ok());
  ASSERT_TRUE(SaveModel(*store, folder / "model.npy", ModelFormat::kNpy).ok());
  const std::string bytes = test::ReadFile(folder / "model.npy");
  EXPECT_NE(bytes.find("[('key', '<u8'), ('weight', '<f4')], 'fortran_order': False, 'shape': "
                       "(1,), }"),
            std::string::npos);
  EXPECT_EQ(io::LoadU64(&bytes[bytes.size() - 12]), ~uint64_t{0});
  EXPECT_EQ(0, std::memcmp(&bytes[bytes.size() - 4], &half, 4));
}

// A python that has numpy: the first of the path, or the system's own. Empty if there is none.
std::string PythonWithNumpy() {
  for (const std::string python : {"python3", "/usr/bin/python3"}) {
    if (std::system((python + " -c 'import numpy' 2>/dev/null").c_str()) == 0) return python;
  }
  return "";
}

TEST(ModelFile, NumpyReadsTheExport) {
  const std::string python = PythonWithNumpy();
  if (python.empty()) GTEST_SKIP() << "no numpy here";
  const test::TemporaryFolder folder;
  ASSERT_TRUE(SaveModel(*TrainedStore(5000), folder / "dense.npy", ModelFormat::kNpy).ok());
  ASSERT_TRUE(SaveModel(*TrainedStore(0), folder / "open.npy", ModelFormat::kNpy).ok());
  const std::string script =
      "import numpy as np; d = np.load('" + (folder / "dense.npy") + "'); o = np.load('" +
      (folder / "open.npy") +
      "'); assert d.shape == (5001,) and d.dtype == np.float32; "
      "assert (d[o['key'][:-1]] == o['weight'][:-1]).all() and len(o) == np.count_nonzero(d); "
      "assert o['key'][-1] == 2**64 - 1 and o['weight'][-1] == d[-1] != 0";
  EXPECT_EQ(std::system((python + " -c \"" + script + "\"").c_str()), 0);
}

TEST(ModelFile, MarginsAreThoseOfTheNaiveLoop) {
  const test::TemporaryFolder folder;
  for (const uint64_t num_features : {uint64_t{0}, uint64_t{4000}}) {
    const auto store = TrainedStore(num_features);
    ASSERT_TRUE(SaveModel(*store, folder / "model", ModelFormat::kBinary).ok());
    const auto model = LoadModel(folder / "model");
    ASSERT_TRUE(model.ok());
    PodVector<float> scratch;
    for (uint64_t seed = 0; seed < 40; ++seed) {
      SCOPED_TRACE(seed);
      test::Problem problem = test::RandomProblem(seed);
      io::CsrBatch& batch = problem.batch;
      for (size_t k = 0; k < batch.keys.size(); ++k) {
        problem.weights[k] = model->Weight(batch.keys[k]);
      }
      std::vector<float> margins(batch.rows()), direct(batch.rows());
      ASSERT_TRUE(model->Margins(batch, scratch, margins).ok());
      io::CsrBatch plain = batch;
      for (uint32_t& col : plain.cols) col = static_cast<uint32_t>(batch.keys[col]);
      plain.keys.clear();
      plain.compacted = false;
      EXPECT_EQ(model->Margins(plain, scratch, direct).ok(), num_features > 0);
      for (size_t r = 0; r < batch.rows(); ++r) {
        double sum = static_cast<double>(model->Weight(io::kInterceptKey));
        for (uint32_t i = batch.row_begin[r]; i < batch.row_begin[r + 1]; ++i) {
          sum += (batch.values.empty() ? 1.0 : batch.values[i]) * problem.weights[batch.cols[i]];
        }
        const float tolerance = test::MarginTolerance(problem, r) + 1e-6f;
        EXPECT_NEAR(margins[r], sum, tolerance);
        if (num_features > 0) {
          EXPECT_NEAR(direct[r], sum, tolerance);
        }
      }
    }
  }
}

TEST(ModelFile, AKeyBeyondTheModelIsAnErrorOfMargins) {
  const auto model = Model::Create({.num_features = 10, .rule = "sgd"});
  io::CsrBatch batch;
  batch.row_begin = {0, 1};
  batch.cols = {0};
  batch.labels = {1};
  batch.keys = {10};
  batch.compacted = true;
  PodVector<float> scratch;
  float margin = 0;
  EXPECT_EQ(model->Margins(batch, scratch, {&margin, 1}).message(),
            "key: expected below num_features = 10, found 10");
}

TEST(ModelFile, TruncatedTextModelIsCorrupt) {
  const test::TemporaryFolder folder;
  ASSERT_TRUE(SaveModel(*SmallStore(), folder / "model", ModelFormat::kText).ok());
  const std::string whole = test::ReadFile(folder / "model");
  for (size_t size = 0; size + 1 < whole.size(); ++size) {  // the last line end may be missing
    SCOPED_TRACE(size);
    test::WriteFile(folder / "cut", whole.substr(0, size));
    const auto model = LoadModel(folder / "cut");
    ASSERT_EQ(model.status().code(), Code::kCorrupt);
    ASSERT_NE(model.status().message().find(folder / "cut"), std::string::npos);
  }
}

std::string TextError(const std::string& lines) {
  const test::TemporaryFolder folder;
  test::WriteFile(
      folder / "model",
      "# millrace model 1\n# num_features 100\n# rule sgd\n# steps 0\n# examples 0\n" + lines);
  const std::string message = LoadModel(folder / "model").status().message();
  return message.substr(std::min(message.size(), folder.path().size() + 1));
}

TEST(ModelFile, CorruptTextIsAnErrorWithItsPosition) {
  EXPECT_EQ(TextError("1\t2\n# weights 1\n"), "");
  EXPECT_EQ(TextError("1 2\n# weights 1\n"),
            "model: offset 72: expected a key, a tab and a weight, or '# weights N' at the end, "
            "found '1 2'");
  EXPECT_EQ(TextError("5\t2\n5\t2\n# weights 2\n"),
            "model: offset 76: expected a key above 5 (keys ascend), found '5?2'");
  EXPECT_EQ(TextError("5\t2\n# weights 2\n"),
            "model: offset 76: expected '# weights 1', found '# weights 2'");
  EXPECT_EQ(TextError("# weights 0\nmore\n"),
            "model: offset 84: expected the end of the file, found 'more'");
  EXPECT_EQ(TextError("100\t2\n# weights 1\n"),
            "model: expected keys below num_features = 100, found 100");
  EXPECT_EQ(TextError("1\tnan\n# weights 1\n"),
            "model: weight of key 1: expected a finite number, found nan");
  EXPECT_NE(TextError(std::string(100000, '1')), "");
}

TEST(ModelFile, OtherFilesAreRefused) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(LoadModel(folder / "absent").status().code(), Code::kNotFound);
  test::WriteFile(folder / "other", "something else");
  EXPECT_EQ(LoadModel(folder / "other").status().code(), Code::kCorrupt);
  ASSERT_TRUE(SaveModel(*TrainedStore(1000), folder / "npy", ModelFormat::kNpy).ok());
  EXPECT_EQ(LoadModel(folder / "npy").status().message(),
            (folder / "npy") + ": .npy is an export only: expected a binary or text model");
}

TEST(ModelFile, AWeightThatIsNotFiniteIsNotSaved) {
  const test::TemporaryFolder folder;
  for (const ModelFormat format : {ModelFormat::kBinary, ModelFormat::kText, ModelFormat::kNpy}) {
    const auto store = TrainedStore(1000, {.rule = Rule::kSgd});
    test::WriteFile(folder / "model", "earlier");
    const float nan = std::numeric_limits<float>::quiet_NaN();
    ASSERT_TRUE(store->Load(3, {&nan, 1}).ok());
    EXPECT_EQ(SaveModel(*store, folder / "model", format).message(),
              "weight of key 3: expected a finite number, found nan: the model is not saved");
    EXPECT_EQ(test::ReadFile(folder / "model"), "earlier");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  }
}

TEST(ModelFile, FullDiskIsAnErrorThatNamesTheFile) {
  for (const ModelFormat format : {ModelFormat::kBinary, ModelFormat::kText, ModelFormat::kNpy}) {
    const Status status = SaveModel(*TrainedStore(1000), "/dev/full", format);
    EXPECT_NE(status.message().find("/dev/full: No space left"), std::string::npos);
  }
}

TEST(WarmStart, WeightsAreThoseOfTheModel) {
  const test::TemporaryFolder folder;
  for (const uint64_t num_features : {uint64_t{0}, uint64_t{1000}}) {
    const auto from = TrainedStore(num_features, {.rule = Rule::kAdaGrad});
    for (const ModelFormat format : {ModelFormat::kBinary, ModelFormat::kText}) {
      ASSERT_TRUE(SaveModel(*from, folder / "model", format).ok());
      for (const Rule rule : kRules) {
        const auto store = EmptyStore(num_features, {.rule = rule});
        const Status status = WarmStart(folder / "model", *store);
        ASSERT_TRUE(status.ok()) << status.message();
        const std::vector<float> expected = WeightsOf(*from), found = WeightsOf(*store);
        ASSERT_EQ(found.size(), expected.size());
        // An indexed FTRL model keeps z and n, which give the weight within rounding.
        const float tolerance = rule == Rule::kFtrl ? 3e-7f : 0;
        for (size_t i = 0; i < found.size(); ++i)
          ASSERT_NEAR(found[i], expected[i], tolerance * std::abs(expected[i]));
        EXPECT_EQ(store->steps(), 0u);
      }
    }
  }
}

// The rule computes w anew from z and n in each step: with gradient 0 it must find the same.
TEST(WarmStart, FtrlStateReproducesTheWeights) {
  const test::TemporaryFolder folder;
  const auto from = TrainedStore(1000, {.rule = Rule::kSgd});
  ASSERT_TRUE(SaveModel(*from, folder / "model", ModelFormat::kBinary).ok());
  for (const auto& [l1, l2] : {std::pair(0.0, 0.0), std::pair(0.5, 0.0), std::pair(2.0, 3.0)}) {
    const auto store = EmptyStore(1000, {.rule = Rule::kFtrl, .rate = .1, .l1 = l1, .l2 = l2});
    ASSERT_TRUE(WarmStart(folder / "model", *store).ok());
    std::vector<uint64_t> keys(1000);
    for (size_t i = 0; i < keys.size(); ++i) keys[i] = i;
    keys.push_back(io::kInterceptKey);
    ASSERT_TRUE(store->Push(keys, std::vector<float>(keys.size()), {}).ok());
    const std::vector<float> expected = WeightsOf(*from), found = WeightsOf(*store);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(found[i], expected[i], 1e-6 * (std::abs(expected[i]) + l1));
    }
  }
}

TEST(WarmStart, ModelOfAnotherSizeIsRefusedAndChangesNothing) {
  const test::TemporaryFolder folder;
  ASSERT_TRUE(SaveModel(*TrainedStore(1000), folder / "model", ModelFormat::kBinary).ok());
  const auto store = EmptyStore(2000);
  EXPECT_EQ(WarmStart(folder / "model", *store).message(),
            (folder / "model") +
                ": expected a model of num_features = 2000, found one of num_features = 1000");
  EXPECT_EQ(WarmStart(folder / "model", *EmptyStore(0)).message(),
            (folder / "model") +
                ": expected a model of any 64-bit key, found one of num_features = 1000");
  EXPECT_EQ(WeightsOf(*store), std::vector<float>(1001));
}

TEST(WarmStart, CorruptModelChangesNothing) {
  const test::TemporaryFolder folder;
  ASSERT_TRUE(SaveModel(*TrainedStore(1000), folder / "model", ModelFormat::kText).ok());
  const std::string whole = test::ReadFile(folder / "model");
  test::WriteFile(folder / "model", whole.substr(0, whole.size() - 5));
  const auto store = EmptyStore(1000);
  EXPECT_EQ(WarmStart(folder / "model", *store).code(), Code::kCorrupt);
  EXPECT_EQ(WeightsOf(*store), std::vector<float>(1001));
}

TEST(WarmStart, FtrlWithoutAnyDenominatorIsRefused) {
  const test::TemporaryFolder folder;
  ASSERT_TRUE(SaveModel(*TrainedStore(1000), folder / "model", ModelFormat::kBinary).ok());
  const auto store = EmptyStore(1000, {.rule = Rule::kFtrl, .ftrl_beta = 0});
  EXPECT_EQ(WarmStart(folder / "model", *store).code(), Code::kInvalid);
  const auto with_l2 = EmptyStore(1000, {.rule = Rule::kFtrl, .l2 = 1, .ftrl_beta = 0});
  EXPECT_EQ(WarmStart(folder / "model", *with_l2).message(),
            "a warm start with ftrl: expected ftrl_beta above 0 for the intercept, which has no "
            "l2, found 0");
}

TEST(WarmStart, InterceptIsRefusedByAModelWithoutOne) {
  const test::TemporaryFolder folder;
  ASSERT_TRUE(SaveModel(*SmallStore(), folder / "model", ModelFormat::kBinary).ok());
  auto store = LocalStore::Create({.num_features = 1000, .intercept = false}, {});
  ASSERT_TRUE(store.ok());
  EXPECT_EQ(WarmStart(folder / "model", **store).message(),
            (folder / "model") +
                ": expected a model without intercept, found one with the intercept 0.5");
}

}  // namespace
}  // namespace millrace::trainer
