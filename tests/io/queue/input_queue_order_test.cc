// SPDX-License-Identifier: Apache-2.0
// Which rows a queue gives, and in which order.
#include <map>
#include <set>

#include "tests/support/numbered_rows.h"

namespace millrace::io {
namespace {

using test::kFeatures;
using test::NumberedRowsTest;

class InputOrderTest : public NumberedRowsTest {};

TEST_F(InputOrderTest, DeliversEveryRowOnceAnEpoch) {
  MakeFiles(5, 1000);
  options_.epochs = 3;
  std::map<uint64_t, int> counts;
  for (const uint64_t n : Flat(Run(options_))) ++counts[n];
  EXPECT_EQ(counts.size(), 1000u);
  for (const auto& [n, count] : counts) EXPECT_EQ(count, 3) << n;
}

TEST_F(InputOrderTest, OrderDependsOnTheSeedNotOnThreads) {
  MakeFiles(7, 2000);
  options_.epochs = 2;
  options_.threads = 1;
  const auto expected = Run(options_);
  for (const size_t threads : {2, 3, 8}) {
    options_.threads = threads;
    EXPECT_EQ(Run(options_), expected) << threads << " threads";
  }
  options_.compact = false;
  EXPECT_EQ(Run(options_), expected);
  options_.seed = 2;
  EXPECT_NE(Run(options_), expected);
}

TEST_F(InputOrderTest, OrderDoesNotDependOnTheBatchSize) {
  MakeFiles(3, 500);
  const auto expected = Flat(Run(options_));
  for (const size_t size : {1, 13, 600}) {
    options_.batch_size = size;
    EXPECT_EQ(Flat(Run(options_)), expected);
  }
}

TEST_F(InputOrderTest, EveryEpochHasAnotherOrder) {
  MakeFiles(4, 700);
  options_.epochs = 3;
  const auto all = Flat(Run(options_));
  const std::vector<uint64_t> first(all.begin(), all.begin() + 700),
      second(all.begin() + 700, all.begin() + 1400), third(all.begin() + 1400, all.end());
  EXPECT_NE(first, second);
  EXPECT_NE(second, third);
}

TEST_F(InputOrderTest, BatchesAreFullExceptTheLastOfAnEpoch) {
  MakeFiles(2, 100);
  options_.epochs = 2;
  const auto batches = Run(options_);
  ASSERT_EQ(batches.size(), 30u);
  for (size_t b = 0; b < 30; ++b) EXPECT_EQ(batches[b].size(), b % 15 == 14 ? 2u : 7u);
}

TEST_F(InputOrderTest, WithoutShuffleTheFilesOwnOrderIsKept) {
  MakeFiles(5, 1000);
  options_.shuffle_capacity = 0;
  options_.threads = 4;
  const auto order = Flat(Run(options_));
  EXPECT_EQ(order.size(), 1000u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_F(InputOrderTest, CompressedFilesGiveTheSameOrder) {
  MakeFiles(3, 600);
  const auto expected = Run(options_);
  for (const Compression compression : {Compression::kGzip, Compression::kZstd}) {
    options_.files.clear();
    MakeFiles(3, 600, compression);
    EXPECT_EQ(Run(options_), expected);
  }
}

TEST_F(InputOrderTest, ResumesExactlyFromEveryBatch) {
  MakeFiles(4, 300);
  options_.epochs = 2;
  const auto expected = Run(options_);
  auto queue = InputQueue::Open(options_);
  const CsrBatch* batch = nullptr;
  for (size_t b = 0; b < expected.size(); ++b) {
    ASSERT_TRUE(*(*queue)->Next(batch));
    InputOptions resumed = options_;
    resumed.start = (*queue)->position();
    resumed.threads = 1 + b % 3;
    const auto rest = Run(resumed);
    ASSERT_EQ(rest, (std::vector(expected.begin() + static_cast<ptrdiff_t>(b) + 1, expected.end())))
        << "batch " << b;
  }
}

TEST_F(InputOrderTest, ResumeBeyondTheDataIsAnError) {
  MakeFiles(2, 100);
  options_.start = {.epoch = 0, .rows = 1000};
  auto queue = InputQueue::Open(options_);
  Status error;
  Drain(**queue, &error);
  EXPECT_NE(error.message().find("the epoch has only 100 rows"), std::string::npos)
      << error.message();
}

// The changed record has valid CRCs, and the file has the same size.
TEST_F(InputOrderTest, ResumeRefusesAChangeOfWhatWasRead) {
  MakeFiles(1, 400);
  const std::string file = options_.files[0];
  const std::string before = test::ReadFile(file);
  options_.shuffle_capacity = 0;
  const auto error_of = [](const InputOptions& options) {
    auto queue = InputQueue::Open(options);
    const CsrBatch* batch = nullptr;
    Result<bool> more = true;
    while (more.ok() && *more) more = (*queue)->Next(batch);
    return more.status();
  };
  for (const uint64_t cache_bytes : {0, 1 << 20}) {
    for (const uint64_t epochs : {1, 2}) {
      options_.cache_bytes = cache_bytes;
      options_.epochs = epochs;
      auto queue = InputQueue::Open(options_);
      const CsrBatch* batch = nullptr;
      for (uint64_t rows = 0; rows < 400 * (epochs - 1) + 200; rows += batch->rows())
        ASSERT_TRUE(*(*queue)->Next(batch));
      InputOptions resumed = options_;
      resumed.start = (*queue)->position();
      ASSERT_EQ(resumed.start.epoch, epochs - 1);
      for (const uint64_t changed : {100, 190, 390}) {
        std::string frames;
        for (uint64_t n = 0; n < 400; ++n) {
          std::string record = test::Row(n);
          if (n == changed) record.back() ^= 1;
          AppendFrame(record, frames);
        }
        ASSERT_EQ(frames.size(), before.size());
        test::WriteFile(file, frames);
        const Status error = error_of(resumed);
        // Blocks have 500 bytes: row 390 is behind all that was read for the first 203 rows.
        EXPECT_EQ(error.ok(), changed == 390) << changed << error.message();
        if (changed == 390) continue;
        EXPECT_EQ(error.message(), "cannot resume at row " + std::to_string(resumed.start.rows) +
                                       " of epoch " + std::to_string(epochs - 1) +
                                       ": the data before it has changed, in " + file);
      }
      test::WriteFile(file, before);
      EXPECT_TRUE(error_of(resumed).ok());
    }
  }
}

TEST_F(InputOrderTest, FingerprintTellsOtherDataApart) {
  MakeFiles(2, 100);
  const uint64_t before = (*InputQueue::Open(options_))->fingerprint();
  EXPECT_EQ((*InputQueue::Open(options_))->fingerprint(), before);
  test::WriteFile(options_.files[0], "");
  EXPECT_NE((*InputQueue::Open(options_))->fingerprint(), before);
}

// Whole files as far as they can be dealt out evenly, the others by record.
TEST_F(InputOrderTest, ShardsAreDisjointAndComplete) {
  MakeFiles(5, 1000);
  for (const uint64_t shards : {2, 3, 5, 8, 17}) {
    SCOPED_TRACE(shards);
    options_.num_shards = shards;
    std::set<uint64_t> seen;
    size_t rows = 0;
    for (options_.shard = 0; options_.shard < shards; ++options_.shard) {
      const auto part = Flat(Run(options_));
      rows += part.size();
      seen.insert(part.begin(), part.end());
      if (shards > 5) {
        EXPECT_NEAR(static_cast<double>(part.size()), 1000.0 / static_cast<double>(shards), 5);
      }
    }
    EXPECT_EQ(rows, 1000u);
    EXPECT_EQ(seen.size(), 1000u);
  }
}

TEST_F(InputOrderTest, ShardsOfEqualFilesAreEqual) {
  MakeFiles(1, 30);
  options_.files.assign(8, options_.files[0]);
  options_.num_shards = 3;
  for (options_.shard = 0; options_.shard < 3; ++options_.shard) {
    EXPECT_EQ(Flat(Run(options_)).size(), 80u) << "two whole files and a third of two more";
  }
}

// A shard by record keeps few records of a block; the block's other bytes must not stay for their
// sake.
TEST_F(InputOrderTest, ShardByRecordHoldsLittleMoreThanItsRecords) {
  options_.files = {folder_ / "big"};
  auto writer = RecordWriter::Create(options_.files[0]);
  std::string record;
  const std::string padding(20000, 'p');
  for (uint64_t n = 0; n < 8000; ++n) {
    ExampleBuilder builder;
    const int64_t label[] = {1}, index[] = {static_cast<int64_t>(n)};
    const std::string_view text[] = {padding};
    builder.AddInt64("index", index);
    builder.AddInt64("label", label);
    builder.AddBytes("padding", text);
    builder.Finish(record);
    ASSERT_TRUE(writer->Append(record).ok());
  }
  ASSERT_TRUE(writer->Close().ok());
  options_.rows.num_features = kFeatures;
  options_.num_shards = 50;
  options_.shuffle_capacity = 150;
  options_.min_after_dequeue = 75;
  options_.batch_size = 5;
  auto queue = InputQueue::Open(options_);
  const CsrBatch* batch = nullptr;
  uint64_t rows = 0, most = 0;
  while (*(*queue)->Next(batch)) {
    rows += batch->rows();
    most = std::max(most, (*queue)->stats().block_bytes_held);
  }
  EXPECT_EQ(rows, 160u);
  EXPECT_LT(most, 60u << 20) << "of 160 MB";
}

}  // namespace
}  // namespace millrace::io
