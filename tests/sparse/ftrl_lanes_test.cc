// SPDX-License-Identifier: Apache-2.0
#include "sparse/ftrl_lanes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "io/base/random.h"
#include "sparse/kernels.h"

namespace millrace::sparse {
namespace {

using io::CsrBatch;

constexpr uint64_t kFeatures = 60;

// Features come again within a row and a batch; some rows are empty.
CsrBatch RandomBatch(Random& random, bool has_values) {
  CsrBatch batch;
  batch.row_begin = {0};
  const size_t rows = 1 + random.Below(40);
  for (size_t r = 0; r < rows; ++r) {
    const size_t entries = random.Below(12);
    for (size_t i = 0; i < entries; ++i) {
      batch.cols.push_back(static_cast<uint32_t>(random.Below(1 + random.Below(kFeatures))));
      if (has_values) batch.values.push_back(static_cast<float>(random.Uniform() * 2 - 1));
    }
    batch.row_begin.push_back(static_cast<uint32_t>(batch.cols.size()));
    batch.labels.push_back(random.Below(3) == 0 ? 1.0f : 0.0f);
  }
  return batch;
}

std::vector<UpdateOptions> RandomOptions(Random& random, size_t models) {
  std::vector<UpdateOptions> all(models);
  for (UpdateOptions& options : all) {
    options.rate = 0.01 + random.Uniform();
    options.l1 = random.Below(2) == 0 ? 0 : random.Uniform();
    options.l2 = random.Below(2) == 0 ? 0 : random.Uniform();
    options.ftrl_beta = random.Uniform();
  }
  return all;
}

std::vector<float> StateOf(const LocalStore& store) {
  std::vector<float> all;
  store.ForEach([&](uint64_t key, std::span<const float> state) {
    all.push_back(static_cast<float>(key == io::kInterceptKey ? kFeatures : key));
    all.insert(all.end(), state.begin(), state.end());
  });
  return all;
}

void ExpectSameBits(std::span<const float> a, std::span<const float> b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size_bytes()), 0);
}

std::unique_ptr<LocalStore> NewStore(const ModelShape& shape, const UpdateOptions& options) {
  auto store = LocalStore::Create(shape, options);
  EXPECT_TRUE(store.ok());
  return std::move(*store);
}

struct Alone {
  explicit Alone(const ModelShape& shape, const UpdateOptions& options)
      : store(NewStore(shape, options)) {}
  std::unique_ptr<LocalStore> store;
  std::vector<float> margins;
};

std::span<float> Part(std::vector<float>& all, size_t model, size_t rows) {
  return std::span(all).subspan(model * rows, rows);
}

TEST(FtrlLanes, EachModelHasTheBitsOfItsOwnStore) {
  for (uint64_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const size_t models = 1 + seed % FtrlLanes::kMost;
    const ModelShape shape = {.num_features = kFeatures, .intercept = seed % 3 != 0};
    const std::vector<UpdateOptions> options = RandomOptions(random, models);
    auto lanes = FtrlLanes::Create(shape, options);
    ASSERT_TRUE(lanes.ok());
    std::vector<Alone> alone;
    for (const UpdateOptions& own : options) alone.emplace_back(shape, own);
    const size_t frozen = random.Below(models);  // from some step on
    const Kernels& kernels = NativeKernels();
    for (size_t step = 0; step < 12; ++step) {
      const CsrBatch batch = RandomBatch(random, seed % 2 == 0);
      const size_t rows = batch.rows();
      if (step == 8) (*lanes)->Freeze(frozen);
      std::vector<float> margins(models * rows), residuals(models * rows);
      (*lanes)->Begin(batch, margins);
      for (size_t m = 0; m < models; ++m) {
        kernels.loss_and_residuals(Part(margins, m, rows), batch.labels, {},
                                   Part(residuals, m, rows));
        if (step >= 8 && m == frozen) continue;
        alone[m].margins.resize(rows);
        alone[m].store->DirectBegin(batch, alone[m].margins);
        ExpectSameBits(Part(margins, m, rows), alone[m].margins);
        alone[m].store->DirectFinish(batch, Part(residuals, m, rows));
      }
      (*lanes)->Finish(batch, residuals);
    }
    const CsrBatch batch = RandomBatch(random, seed % 2 == 1);
    std::vector<float> margins(models * batch.rows());
    (*lanes)->Margins(batch, margins);
    for (size_t m = 0; m < models; ++m) {
      SCOPED_TRACE(m);
      alone[m].margins.resize(batch.rows());
      alone[m].store->DirectMargins(batch, alone[m].margins);
      ExpectSameBits(Part(margins, m, batch.rows()), alone[m].margins);
      const auto copy = NewStore(shape, options[m]);
      ASSERT_TRUE((*lanes)->CopyTo(m, *copy).ok());
      ExpectSameBits(StateOf(*copy), StateOf(*alone[m].store));
    }
  }
}

TEST(FtrlLanes, ADivergedModelLeavesTheOthersAlone) {
  const ModelShape shape = {.num_features = kFeatures};
  Random random(5);
  const std::vector<UpdateOptions> options = RandomOptions(random, 3);
  const auto created = FtrlLanes::Create(shape, options);
  ASSERT_TRUE(created.ok());
  FtrlLanes& lanes = **created;
  Alone last(shape, options[2]);
  for (size_t step = 0; step < 4; ++step) {
    const CsrBatch batch = RandomBatch(random, true);
    const size_t rows = batch.rows();
    std::vector<float> margins(3 * rows);
    lanes.Begin(batch, margins);
    std::fill_n(margins.begin(), rows, std::nanf(""));
    NativeKernels().loss_and_residuals(Part(margins, 2, rows), batch.labels, {},
                                       Part(margins, 2, rows));
    last.margins.resize(rows);
    last.store->DirectBegin(batch, last.margins);
    last.store->DirectFinish(batch, Part(margins, 2, rows));
    lanes.Finish(batch, margins);
  }
  const auto copy = NewStore(shape, options[2]);
  ASSERT_TRUE(lanes.CopyTo(2, *copy).ok());
  ExpectSameBits(StateOf(*copy), StateOf(*last.store));
}

TEST(FtrlLanes, SuitsLinearFtrlModelsWithAnIndex) {
  const ModelShape shape = {.num_features = 10};
  EXPECT_TRUE(FtrlLanes::Suits(shape, {}));
  EXPECT_FALSE(FtrlLanes::Suits(shape, {.rule = Rule::kAdam}));
  EXPECT_FALSE(FtrlLanes::Suits(shape, {.normalize = true}));
  EXPECT_FALSE(FtrlLanes::Suits({}, {}));
  EXPECT_FALSE(FtrlLanes::Suits({.num_features = 10, .factors = {.kind = ModelKind::kFm}}, {}));
}

}  // namespace
}  // namespace millrace::sparse
