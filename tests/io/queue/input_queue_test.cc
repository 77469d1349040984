#include "io/queue/input_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "io/base/random.h"
#include "io/example/example_encoder.h"
#include "io/record/record_writer.h"
#include "tests/test_files.h"

namespace millrace::io {
namespace {

constexpr uint64_t kFeatures = 100000;

// Row n has the keys {n, n + 1, ...} (as many as n mod 4), so that a row can be told from its first
// key.
std::string Row(uint64_t n) {
  std::vector<uint64_t> keys;
  for (uint64_t i = 0; i <= n % 4; ++i) keys.push_back(n + i);
  std::vector<float> values(keys.size(), n % 5 == 0 ? 0.5f : 1.0f);
  std::string record;
  EncodeSparseExample({}, static_cast<int64_t>(n % 3 == 0), keys, values, record);
  return record;
}

class InputQueueTest : public testing::Test {
 protected:
  // Files of uneven size with rows numbered from 0 on.
  void MakeFiles(size_t files, uint64_t rows, Compression compression = Compression::kNone) {
    uint64_t n = 0;
    for (size_t f = 0; f < files; ++f) {
      options_.files.push_back(folder_ / ("part-" + std::to_string(f)));
      auto writer = RecordWriter::Create(options_.files.back(), {.compression = compression});
      ASSERT_TRUE(writer.ok());
      const uint64_t end = f + 1 == files ? rows : rows * (f + 1) * (f + 2) / (files * (files + 1));
      for (; n < end; ++n) ASSERT_TRUE(writer->Append(Row(n)).ok());
      ASSERT_TRUE(writer->Close().ok());
    }
    options_.rows.num_features = kFeatures;
    options_.batch_size = 7;
    options_.shuffle_capacity = 50;
    options_.min_after_dequeue = 20;
    options_.block_bytes = 500;
    options_.lanes = 3;
  }

  // The numbers of the rows of each batch; checks the rows' content on the way.
  static std::vector<std::vector<uint64_t>> Drain(InputQueue& queue, Status* error = nullptr) {
    std::vector<std::vector<uint64_t>> batches;
    const CsrBatch* batch = nullptr;
    while (true) {
      const Result<bool> more = queue.Next(batch);
      if (error) *error = more.status();
      if (!error) {
        EXPECT_TRUE(more.ok()) << more.status().message();
      }
      if (!more.ok() || !*more) return batches;
      batches.push_back(Numbers(*batch));
    }
  }

  static std::vector<uint64_t> Numbers(const CsrBatch& batch) {
    std::vector<uint64_t> numbers;
    EXPECT_TRUE(std::is_sorted(batch.keys.begin(), batch.keys.end()));
    for (size_t r = 0; r < batch.rows(); ++r) {
      const uint32_t begin = batch.row_begin[r];
      const auto key = [&](uint32_t i) {
        return batch.compacted ? batch.keys[batch.cols[i]] : batch.cols[i];
      };
      const uint64_t n = key(begin);
      EXPECT_EQ(batch.row_begin[r + 1] - begin, n % 4 + 1);
      for (uint32_t i = 0; i <= n % 4; ++i) EXPECT_EQ(key(begin + i), n + i);
      EXPECT_EQ(batch.labels[r], n % 3 == 0 ? 1.0f : 0.0f);
      EXPECT_EQ(batch.values.empty() ? 1.0f : batch.values[begin], n % 5 == 0 ? 0.5f : 1.0f);
      numbers.push_back(n);
    }
    return numbers;
  }

  std::vector<std::vector<uint64_t>> Run(const InputOptions& options) {
    auto queue = InputQueue::Open(options);
    EXPECT_TRUE(queue.ok()) << queue.status().message();
    if (!queue.ok()) return {};
    return Drain(**queue);
  }

  static std::vector<uint64_t> Flat(const std::vector<std::vector<uint64_t>>& batches) {
    std::vector<uint64_t> all;
    for (const auto& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
    return all;
  }

  test::TemporaryFolder folder_;
  InputOptions options_;
};

TEST_F(InputQueueTest, DeliversEveryRowOnceAnEpoch) {
  MakeFiles(5, 1000);
  options_.epochs = 3;
  std::map<uint64_t, int> counts;
  for (const uint64_t n : Flat(Run(options_))) ++counts[n];
  EXPECT_EQ(counts.size(), 1000u);
  for (const auto& [n, count] : counts) EXPECT_EQ(count, 3) << n;
}

TEST_F(InputQueueTest, OrderDependsOnTheSeedNotOnThreads) {
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

TEST_F(InputQueueTest, OrderDoesNotDependOnTheBatchSize) {
  MakeFiles(3, 500);
  const auto expected = Flat(Run(options_));
  for (const size_t size : {1, 13, 600}) {
    options_.batch_size = size;
    EXPECT_EQ(Flat(Run(options_)), expected);
  }
}

TEST_F(InputQueueTest, EveryEpochHasAnotherOrder) {
  MakeFiles(4, 700);
  options_.epochs = 3;
  const auto all = Flat(Run(options_));
  const std::vector<uint64_t> first(all.begin(), all.begin() + 700),
      second(all.begin() + 700, all.begin() + 1400), third(all.begin() + 1400, all.end());
  EXPECT_NE(first, second);
  EXPECT_NE(second, third);
}

TEST_F(InputQueueTest, BatchesAreFullButForTheLastOfAnEpoch) {
  MakeFiles(2, 100);
  options_.epochs = 2;
  const auto batches = Run(options_);
  ASSERT_EQ(batches.size(), 30u);
  for (size_t b = 0; b < 30; ++b) EXPECT_EQ(batches[b].size(), b % 15 == 14 ? 2u : 7u);
}

TEST_F(InputQueueTest, WithoutShuffleTheFilesOwnOrderIsKept) {
  MakeFiles(5, 1000);
  options_.shuffle_capacity = 0;
  options_.threads = 4;
  const auto order = Flat(Run(options_));
  EXPECT_EQ(order.size(), 1000u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_F(InputQueueTest, CompressedFilesGiveTheSameOrder) {
  MakeFiles(3, 600);
  const auto expected = Run(options_);
  for (const Compression compression : {Compression::kGzip, Compression::kZstd}) {
    options_.files.clear();
    MakeFiles(3, 600, compression);
    EXPECT_EQ(Run(options_), expected);
  }
}

TEST_F(InputQueueTest, ResumesExactlyFromEveryBatch) {
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

TEST_F(InputQueueTest, ResumeBeyondTheDataIsAnError) {
  MakeFiles(2, 100);
  options_.start = {.epoch = 0, .rows = 1000};
  auto queue = InputQueue::Open(options_);
  Status error;
  Drain(**queue, &error);
  EXPECT_NE(error.message().find("the epoch has only 100 rows"), std::string::npos)
      << error.message();
}

TEST_F(InputQueueTest, FingerprintTellsOtherDataApart) {
  MakeFiles(2, 100);
  const uint64_t before = (*InputQueue::Open(options_))->fingerprint();
  EXPECT_EQ((*InputQueue::Open(options_))->fingerprint(), before);
  test::WriteFile(options_.files[0], "");
  EXPECT_NE((*InputQueue::Open(options_))->fingerprint(), before);
}

// Whole files as far as they can be dealt out evenly, the others by record.
TEST_F(InputQueueTest, ShardsAreDisjointAndComplete) {
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

TEST_F(InputQueueTest, ShardsOfEqualFilesAreEqual) {
  MakeFiles(1, 30);
  options_.files.assign(8, options_.files[0]);
  options_.num_shards = 3;
  for (options_.shard = 0; options_.shard < 3; ++options_.shard) {
    EXPECT_EQ(Flat(Run(options_)).size(), 80u) << "two whole files and a third of two more";
  }
}

// A shard by record keeps few records of a block; the block's other bytes must not stay for their
// sake.
TEST_F(InputQueueTest, ShardByRecordHoldsLittleMoreThanItsRecords) {
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

TEST_F(InputQueueTest, CorruptRecordStopsTheRunAndNamesItsPlace) {
  MakeFiles(3, 300);
  std::string bytes = test::ReadFile(options_.files[1]);
  bytes[bytes.size() / 2] ^= 1;
  test::WriteFile(options_.files[1], bytes);
  for (const size_t threads : {1, 3}) {
    options_.threads = threads;
    auto queue = InputQueue::Open(options_);
    Status error;
    Drain(**queue, &error);
    EXPECT_EQ(error.code(), Code::kCorrupt);
    EXPECT_NE(error.message().find(options_.files[1] + ": offset "), std::string::npos)
        << error.message();
    const CsrBatch* batch = nullptr;
    EXPECT_FALSE((*queue)->Next(batch).ok()) << "an error is final";
  }
}

TEST_F(InputQueueTest, SkippingDeliversAllOtherRowsAndCountsTheLoss) {
  MakeFiles(3, 300);
  std::string bytes = test::ReadFile(options_.files[1]);
  bytes[bytes.size() / 2] ^= 1;
  test::WriteFile(options_.files[1], bytes);
  options_.on_corrupt = OnCorrupt::kSkip;
  auto queue = InputQueue::Open(options_);
  const auto rows = Flat(Drain(**queue));
  EXPECT_EQ(std::set<uint64_t>(rows.begin(), rows.end()).size(), 299u);
  EXPECT_EQ((*queue)->loss().events, 1u);
  EXPECT_NE((*queue)->loss().first.find(options_.files[1]), std::string::npos);
}

TEST_F(InputQueueTest, BadExampleFollowsTheSameRule) {
  MakeFiles(2, 100);
  std::string frames = test::ReadFile(options_.files[0]);
  const size_t offset = frames.size();
  AppendFrame("this is no example", frames);
  test::WriteFile(options_.files[0], frames);
  auto queue = InputQueue::Open(options_);
  Status error;
  Drain(**queue, &error);
  EXPECT_EQ(error.code(), Code::kCorrupt);
  EXPECT_NE(error.message().find(options_.files[0] + ": offset " + std::to_string(offset) + ": "),
            std::string::npos)
      << error.message();
  options_.on_corrupt = OnCorrupt::kSkip;
  auto skipping = InputQueue::Open(options_);
  EXPECT_EQ(Flat(Drain(**skipping)).size(), 100u);
  EXPECT_EQ((*skipping)->loss().events, 1u);
}

TEST_F(InputQueueTest, IndexBeyondNumFeaturesIsAnError) {
  MakeFiles(2, 100);
  options_.rows.num_features = 50;
  auto queue = InputQueue::Open(options_);
  Status error;
  Drain(**queue, &error);
  EXPECT_NE(error.message().find("below num_features = 50"), std::string::npos) << error.message();
}

TEST_F(InputQueueTest, OpenModelsTakeAny64BitKey) {
  MakeFiles(2, 200);
  const auto expected = Run(options_);
  options_.rows.num_features = 0;
  EXPECT_EQ(Run(options_), expected);
}

TEST_F(InputQueueTest, ReadsLibsvmText) {
  std::string text = "# a comment\n\n";
  for (int n = 0; n < 100; ++n)
    text += (n % 3 == 0 ? "1 " : "-1 ") + std::to_string(n) + ":1 # row\n";
  test::WriteFile(folder_ / "a.libsvm", text);
  options_.files = {folder_ / "a.libsvm"};
  options_.format = InputFormat::kLibsvm;
  options_.rows.num_features = 1000;
  options_.shuffle_capacity = 0;
  auto queue = InputQueue::Open(options_);
  const CsrBatch* batch = nullptr;
  ASSERT_TRUE(*(*queue)->Next(batch));
  ASSERT_EQ(batch->rows(), 100u);
  for (uint32_t n = 0; n < 100; ++n) EXPECT_EQ(batch->keys[batch->cols[n]], n);
}

TEST_F(InputQueueTest, CacheChangesNothingButTheReading) {
  MakeFiles(5, 1000);
  options_.epochs = 4;
  for (const bool wide : {false, true}) {
    options_.rows.num_features = wide ? 0 : kFeatures;
    options_.cache_bytes = 0;
    const auto expected = Run(options_);
    // Room for all files, for some, for none.
    for (const uint64_t bytes : {uint64_t{1} << 30, uint64_t{20000}, uint64_t{1}}) {
      for (const size_t threads : {1, 4}) {
        options_.cache_bytes = bytes;
        options_.threads = threads;
        ASSERT_EQ(Run(options_), expected) << bytes << " bytes, " << threads << " threads";
      }
    }
  }
}

TEST_F(InputQueueTest, CachedFilesAreReadOnceAndWithinTheLimit) {
  MakeFiles(5, 1000);
  options_.epochs = 20;  // a lane that runs ahead of the cache may read a file a second time
  auto plain = InputQueue::Open(options_);
  Drain(**plain);
  options_.cache_bytes = 1 << 30;
  auto cached = InputQueue::Open(options_);
  Drain(**cached);
  EXPECT_LE((*cached)->stats().bytes_read, (*plain)->stats().bytes_read / 2);
  EXPECT_GT((*cached)->stats().bytes_cached, 0u);
  options_.cache_bytes = 20000;
  auto limited = InputQueue::Open(options_);
  Drain(**limited);
  EXPECT_LE((*limited)->stats().bytes_cached, 20000u);
}

TEST_F(InputQueueTest, CacheKeepsBadExamplesBad) {
  MakeFiles(2, 100);
  std::string frames = test::ReadFile(options_.files[0]);
  const size_t offset = frames.size();
  AppendFrame("this is no example", frames);
  test::WriteFile(options_.files[0], frames);
  options_.cache_bytes = 1 << 30;
  auto failing = InputQueue::Open(options_);
  Status error;
  Drain(**failing, &error);
  EXPECT_NE(error.message().find(options_.files[0] + ": offset " + std::to_string(offset) + ": "),
            std::string::npos)
      << error.message();
  options_.on_corrupt = OnCorrupt::kSkip;
  options_.epochs = 3;
  auto skipping = InputQueue::Open(options_);
  const auto with_cache = Drain(**skipping);
  EXPECT_EQ((*skipping)->loss().events, 3u);
  options_.cache_bytes = 0;
  EXPECT_EQ(Run(options_), with_cache);
}

TEST_F(InputQueueTest, ResumeWithACacheIsExact) {
  MakeFiles(4, 300);
  options_.epochs = 3;
  options_.cache_bytes = 1 << 30;
  const auto expected = Run(options_);
  auto queue = InputQueue::Open(options_);
  const CsrBatch* batch = nullptr;
  for (size_t b = 0; b < expected.size(); ++b) {
    ASSERT_TRUE(*(*queue)->Next(batch));
    if (b % 10 != 3) continue;
    InputOptions resumed = options_;
    resumed.start = (*queue)->position();
    ASSERT_EQ(Run(resumed),
              (std::vector(expected.begin() + static_cast<ptrdiff_t>(b) + 1, expected.end())));
  }
}

TEST_F(InputQueueTest, AbandonedQueueStopsItsThreads) {
  MakeFiles(4, 5000);
  for (int i = 0; i < 20; ++i) {
    options_.threads = 4;
    auto queue = InputQueue::Open(options_);
    const CsrBatch* batch = nullptr;
    for (int b = 0; b < i; ++b) ASSERT_TRUE(*(*queue)->Next(batch));
  }
}

TEST_F(InputQueueTest, EmptyDataEndsAtOnce) {
  test::WriteFile(folder_ / "empty", "");
  options_.files = {folder_ / "empty"};
  options_.epochs = 1000000;
  EXPECT_TRUE(Run(options_).empty());
}

TEST_F(InputQueueTest, StatsAddUp) {
  MakeFiles(3, 1000);
  auto queue = InputQueue::Open(options_);
  Drain(**queue);
  const InputStats stats = (*queue)->stats();
  EXPECT_EQ(stats.rows, 1000u);
  EXPECT_EQ(stats.batches, 143u);
  EXPECT_EQ(stats.shuffle_size, 0u);
  EXPECT_EQ(stats.block_bytes_held, 0u);
  EXPECT_GT(stats.bytes_read, 1000u);
}

TEST_F(InputQueueTest, OptionsAreCheckedBeforeAnyWork) {
  MakeFiles(1, 10);
  const auto refused = [&](auto change) {
    InputOptions options = options_;
    change(options);
    return InputQueue::Open(options).status().message();
  };
  EXPECT_NE(refused([](auto& o) { o.batch_size = 0; }).find("batch_size"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.min_after_dequeue = 50; }).find("min_after_dequeue"),
            std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.shard = 1; }).find("shard"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.threads = 0; }).find("threads"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.threads = 100000; }).find("threads"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.epochs = 0; }).find("epochs"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.files.clear(); }).find("no input files"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.files = {"/nowhere"}; }).find("/nowhere"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.epochs = 2, o.files = {"-"}; }).find("once only"),
            std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.compact = false, o.rows.num_features = 0; }).find("compact"),
            std::string::npos);
}

}  // namespace
}  // namespace millrace::io
