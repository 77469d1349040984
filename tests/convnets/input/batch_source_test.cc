// SPDX-License-Identifier: Apache-2.0
#include "convnets/input/batch_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace millrace::convnets {
namespace {

ImageOptions Small() {
  ImageOptions options;
  options.shape = {1, 6, 5};
  options.num_classes = 3;
  return options;
}

std::vector<float> AllPixels(const ImageSet& images, BatchSourceOptions options) {
  BatchSource source(images, options);
  std::vector<float> all;
  Batch batch;
  while (*source.Next(batch)) {
    all.insert(all.end(), batch.pixels.begin(), batch.pixels.end());
    for (const int32_t label : batch.labels) all.push_back(static_cast<float>(label));
  }
  return all;
}

TEST(BatchOrder, EveryEpochVisitsEveryImageOnceInAnotherOrder) {
  BatchOrder order({.images = 103, .batch_size = 10});
  EXPECT_EQ(order.batches_per_epoch(), 11u);
  std::vector<std::vector<uint32_t>> epochs(2);
  for (uint64_t b = 0; b < 22; ++b) {
    const auto batch = order.Batch(b);
    EXPECT_EQ(batch.size(), b % 11 == 10 ? 3u : 10u);
    epochs[b / 11].insert(epochs[b / 11].end(), batch.begin(), batch.end());
  }
  for (const auto& epoch : epochs) {
    EXPECT_EQ(std::set<uint32_t>(epoch.begin(), epoch.end()).size(), 103u);
  }
  EXPECT_NE(epochs[0], epochs[1]);
}

TEST(BatchOrder, AnyBatchCanBeAskedForFirst) {
  BatchOrder forward({.images = 50, .batch_size = 7}), other({.images = 50, .batch_size = 7});
  std::vector<std::vector<uint32_t>> batches;
  for (uint64_t b = 0; b < 16; ++b) {
    batches.emplace_back(forward.Batch(b).begin(), forward.Batch(b).end());
  }
  for (const uint64_t b : {15, 0, 9, 8}) {
    EXPECT_TRUE(std::ranges::equal(other.Batch(b), batches[b])) << b;
  }
}

TEST(BatchOrder, WorkersShareAnEpochWithoutOverlap) {
  std::set<uint32_t> seen;
  for (const size_t worker : {0, 1, 2}) {
    BatchOrder order({.images = 30, .batch_size = 10, .worker = worker, .workers = 3});
    ASSERT_EQ(order.batches_per_epoch(), 1u);
    for (const uint32_t image : order.Batch(0)) EXPECT_TRUE(seen.insert(image).second);
  }
  EXPECT_EQ(seen.size(), 30u);
}

TEST(BatchSource, ThreadsChangeNothing) {
  const auto images = SyntheticImages(Small(), 101, 1, false);
  const BatchSourceOptions options = {.order = {.batch_size = 8}, .begin = 3, .end = 30};
  const std::vector<float> expected = AllPixels(*images, options);
  for (const size_t threads : {1, 2, 5}) {
    BatchSourceOptions ahead = options;
    ahead.threads = threads;
    EXPECT_EQ(AllPixels(*images, ahead), expected) << threads;
  }
}

// Image 5 is corrupt.
class CorruptImages final : public ImageSet {
 public:
  size_t size() const override { return 20; }
  Shape shape() const override { return {1, 1, 1}; }
  bool slow() const override { return true; }
  Result<int32_t> Read(size_t index, uint64_t, std::span<float>) const override {
    if (index == 5) return Corrupt("file: record 5");
    return 0;
  }
};

TEST(BatchSource, ErrorComesWithItsBatch) {
  for (const size_t threads : {0, 3}) {
    const CorruptImages images;
    BatchSource source(
        images,
        {.order = {.batch_size = 2, .shuffle = false}, .begin = 0, .end = 10, .threads = threads});
    Batch batch;
    EXPECT_TRUE(*source.Next(batch));
    EXPECT_TRUE(*source.Next(batch));
    EXPECT_EQ(source.Next(batch).status().message(), "file: record 5");
  }
}

TEST(BatchSource, CanBeDestroyedBeforeItsEnd) {
  const auto images = SyntheticImages(Small(), 100, 1, false);
  BatchSource source(*images, {.order = {.batch_size = 4}, .begin = 0, .end = 1000, .threads = 3});
  Batch batch;
  EXPECT_TRUE(*source.Next(batch));
}

}  // namespace
}  // namespace millrace::convnets
