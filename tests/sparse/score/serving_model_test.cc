// SPDX-License-Identifier: Apache-2.0
#include "sparse/score/serving_model.h"

#include <gtest/gtest.h>

#include <cstring>

#include "io/base/crc32c.h"
#include "tests/sparse/score/serving_fixture.h"

namespace millrace::score {
namespace {

using test::ModelOptions;

TEST(ServingModel, DescribesItself) {
  const test::TemporaryFolder folder;
  const ModelOptions options = {.factors = 4, .layout = Layout::kHash, .type = WeightsType::kF16};
  const trainer::Model model = test::MakeModel(options, 1, folder / "model");
  const test::OpenScorer scorer(folder / "model");
  millrace_score_info info;
  ASSERT_EQ(millrace_score_get_info(scorer.get(), &info, nullptr), 0);
  EXPECT_STREQ(info.kind, "fm");
  EXPECT_STREQ(info.weights_type, "f16");
  EXPECT_STREQ(info.layout, "hash");
  EXPECT_EQ(std::strlen(info.digest), 16u);
  EXPECT_EQ(info.num_features, 1000u);
  EXPECT_EQ(info.num_weights + 1, model.info().weights);  // without the intercept
  EXPECT_EQ(info.num_factors, 4u);
  EXPECT_EQ(info.path, folder / "model");
  EXPECT_EQ(info.file_bytes, test::ReadFile(folder / "model").size());
  EXPECT_EQ(info.input_format, nullptr);
  EXPECT_EQ(info.feature_spec, nullptr);
  millrace_score_free_info(&info);
}

// Each weight is the nearest one of its type.
TEST(ServingModel, HalvesRoundTheWeights) {
  const test::TemporaryFolder folder;
  for (const WeightsType type : {WeightsType::kF16, WeightsType::kBf16}) {
    for (const Layout layout : {Layout::kDense, Layout::kHash}) {
      const ModelOptions options = {.factors = 8, .layout = layout, .type = type};
      const trainer::Model model = test::MakeModel(options, 1, folder / "model");
      const auto serving = ServingModel::Open(folder / "model", {});
      ASSERT_TRUE(serving.ok()) << serving.status().message();
      for (uint64_t key = 0; key < options.num_features; ++key) {
        const char* entry = (*serving)->table().Find(key);
        const float weight = model.Weight(key);
        if (!entry) {
          ASSERT_EQ(weight, 0);
          continue;
        }
        const auto rounded = [&](float number) {
          return type == WeightsType::kF16 ? FromF16(ToF16(number)) : FromBf16(ToBf16(number));
        };
        const auto at = [&](size_t i) {
          return type == WeightsType::kF16 ? LoadNumber<WeightsType::kF16>(entry + 2 * i)
                                           : LoadNumber<WeightsType::kBf16>(entry + 2 * i);
        };
        ASSERT_EQ(at(0), rounded(weight));
        for (size_t f = 0; f < 8; ++f) ASSERT_EQ(at(1 + f), rounded(model.Factors(key)[f]));
      }
    }
  }
}

TEST(ServingModel, AFileThatIsCutIsCorrupt) {
  const test::TemporaryFolder folder;
  test::MakeModel({.num_features = 300, .factors = 4}, 1, folder / "model");
  const std::string bytes = test::ReadFile(folder / "model");
  for (size_t size = 0; size < bytes.size(); size += size + 700 < bytes.size() ? 97 : 1) {
    test::WriteFile(folder / "cut", bytes.substr(0, size));
    const auto model = ServingModel::Open(folder / "cut", {});
    ASSERT_FALSE(model.ok()) << size;
    ASSERT_EQ(model.status().code(), Code::kCorrupt) << model.status().message();
  }
}

TEST(ServingModel, VerifyFindsEveryFlippedByte) {
  const test::TemporaryFolder folder;
  test::MakeModel({.num_features = 300, .layout = Layout::kHash}, 1, folder / "model");
  const std::string bytes = test::ReadFile(folder / "model");
  millrace_score_error error = {};
  EXPECT_EQ(millrace_score_verify((folder / "model").c_str(), &error), 0) << error.message;
  for (size_t at = 0; at < bytes.size(); at += at < kServingHeadBytes ? 511 : 7) {
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ 4);
    test::WriteFile(folder / "flipped", flipped);
    ASSERT_EQ(millrace_score_verify((folder / "flipped").c_str(), &error), MILLRACE_SCORE_CORRUPT)
        << at;
  }
}

// A key that wraps around the end of the table, and full buckets.
TEST(ServingModel, AFullHashTableFindsItsKeys) {
  const test::TemporaryFolder folder;
  TableShape shape = HashShape(10, 1, WeightsType::kF32);
  shape.buckets = 3;
  io::StateFields fields;
  trainer::AddModelInfo({.num_features = 0, .rule = "sgd"}, fields);
  auto writer = ServingWriter::Create(folder / "model", shape, fields);
  ASSERT_TRUE(writer.ok());
  const uint64_t count = shape.buckets * shape.bucket_keys;
  for (uint64_t key = 0; key < count; ++key) {
    const auto weight = static_cast<float>(key + 1);
    ASSERT_TRUE(writer->Add(key, {&weight, 1}).ok());
  }
  const float more = 1;
  EXPECT_FALSE(writer->Add(count, {&more, 1}).ok());
  ASSERT_TRUE(writer->Finish().ok());
  const auto model = ServingModel::Open(folder / "model", {});
  ASSERT_TRUE(model.ok()) << model.status().message();
  for (uint64_t key = 0; key < count; ++key) {
    const char* entry = (*model)->table().Find(key);
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(LoadNumber<WeightsType::kF32>(entry), static_cast<float>(key + 1));
  }
  EXPECT_EQ((*model)->table().Find(count + 7), nullptr);
}

TEST(ServingModel, WeightsThatDoNotFitAreAnError) {
  const test::TemporaryFolder folder;
  io::StateFields fields;
  trainer::AddModelInfo({.num_features = 4, .rule = "sgd"}, fields);
  auto writer =
      ServingWriter::Create(folder / "model", DenseShape(4, 1, WeightsType::kF16), fields);
  ASSERT_TRUE(writer.ok());
  const float large = 70000;
  const Status status = writer->Add(2, {&large, 1});
  EXPECT_EQ(status.message(),
            "weight of key 2: expected at most 65504 in an f16 (bf16 has the range of f32), found "
            "70000");
}

TEST(ServingModel, OtherFilesAreErrorsThatSayWhatIsExpected) {
  const test::TemporaryFolder folder;
  millrace_scorer* scorer = nullptr;
  millrace_score_error error = {};
  EXPECT_EQ(millrace_score_open((folder / "none").c_str(), 0, &scorer, &error),
            MILLRACE_SCORE_NOT_FOUND);
  EXPECT_EQ(scorer, nullptr);
  test::WriteFile(folder / "model.bin", "MILLRACE and more, but no serving model");
  EXPECT_EQ(millrace_score_open((folder / "model.bin").c_str(), 0, &scorer, &error),
            MILLRACE_SCORE_CORRUPT);
  EXPECT_NE(std::string(error.message).find("millrace-predict export makes one"),
            std::string::npos);
  EXPECT_EQ(millrace_score_open(folder.path().c_str(), 0, &scorer, &error), MILLRACE_SCORE_INVALID)
      << error.message;
  EXPECT_EQ(millrace_score_open("/dev/null", 0, &scorer, &error), MILLRACE_SCORE_INVALID);
  EXPECT_EQ(millrace_score_open(nullptr, 0, &scorer, &error), MILLRACE_SCORE_INVALID);
  EXPECT_EQ(millrace_score_open("x", 1024, &scorer, &error), MILLRACE_SCORE_INVALID);
}

}  // namespace
}  // namespace millrace::score
