// SPDX-License-Identifier: Apache-2.0
// Bad data, other formats, the cache, the ends of a queue's life.
#include "io/queue/input_queue.h"

#include <set>

#include "tests/support/numbered_rows.h"

namespace millrace::io {
namespace {

using test::kFeatures;
using test::NumberedRowsTest;

class InputQueueTest : public NumberedRowsTest {};

TEST_F(InputQueueTest, CorruptRecordIsAnErrorThatNamesItsLocation) {
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

TEST_F(InputQueueTest, SkippingDeliversAllOtherRowsAndCountsCorruption) {
  MakeFiles(3, 300);
  std::string bytes = test::ReadFile(options_.files[1]);
  bytes[bytes.size() / 2] ^= 1;
  test::WriteFile(options_.files[1], bytes);
  options_.on_corrupt = OnCorrupt::kSkip;
  auto queue = InputQueue::Open(options_);
  const auto rows = Flat(Drain(**queue));
  EXPECT_EQ(std::set<uint64_t>(rows.begin(), rows.end()).size(), 299u);
  EXPECT_EQ((*queue)->corruption().events, 1u);
  EXPECT_NE((*queue)->corruption().first.find(options_.files[1]), std::string::npos);
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
  EXPECT_EQ((*skipping)->corruption().events, 1u);
}

TEST_F(InputQueueTest, TheFirstSkippedRowIsThatOfTheFiles) {
  MakeFiles(2, 300);
  std::string frames = test::ReadFile(options_.files[0]);
  const size_t offset = frames.size();
  for (int i = 0; i < 50; ++i) AppendFrame("this is no example", frames);
  test::WriteFile(options_.files[0], frames);
  std::string others = test::ReadFile(options_.files[1]);
  AppendFrame("nor is this", others);
  test::WriteFile(options_.files[1], others);
  options_.on_corrupt = OnCorrupt::kSkip;
  options_.shuffle_capacity = 200;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    options_.seed = seed;
    auto queue = InputQueue::Open(options_);
    Drain(**queue);
    const CorruptionStats found = (*queue)->corruption();
    EXPECT_EQ(found.events, 51u);
    EXPECT_NE(found.first.find(options_.files[0] + ": offset " + std::to_string(offset) + ": "),
              std::string::npos)
        << found.first;
  }
}

TEST_F(InputQueueTest, RowsJustBelowTheLimitDoNotFillTheMemory) {
  MakeFiles(1, 1);
  // 100 rows of 10 kB: each is below max_record_bytes, all together are above 32 times that.
  std::string text;
  for (int row = 0; row < 100; ++row) {
    text += "1";
    for (int key = 1; key < 1500; ++key) text += " " + std::to_string(key) + ":1";
    text += "\n";
  }
  test::WriteFile(options_.files[0], text);
  options_.format = InputFormat::kLibsvm;
  options_.max_record_bytes = 20'000;
  const auto error = [&] {
    Status status;
    const CsrBatch* batch = nullptr;
    auto queue = InputQueue::Open(options_);
    for (Result<bool> more = true; more.ok() && *more; status = more.status())
      more = (*queue)->Next(batch);
    return status.message();
  };
  options_.shuffle_capacity = 90;
  EXPECT_NE(error().find("expected rows of at most 640000 bytes in the shuffle buffer and a batch"),
            std::string::npos)
      << error();
  options_.shuffle_capacity = 0;
  options_.batch_size = 90;
  EXPECT_NE(error().find("lower shuffle_capacity or batch_size, or raise max_record_bytes"),
            std::string::npos)
      << error();
  options_.batch_size = 10;
  EXPECT_EQ(error(), "");
}

TEST_F(InputQueueTest, BatchHasRoomForAMultipleOfTheLongestRow) {
  MakeFiles(1, 1);
  std::string text;
  for (int row = 0; row < 20; ++row) {
    text += "1 |";
    for (int key = 0; key < 45; ++key) text += " a";
    text += "\n";
  }
  test::WriteFile(options_.files[0], text);
  options_.format = InputFormat::kVw;
  options_.rows.hash_bits = 10;
  options_.shuffle_capacity = 0;
  options_.max_record_bytes = 100;
  for (const size_t batch_size : {6, 20}) {  // 270 and 900 keys
    options_.batch_size = batch_size;
    auto queue = InputQueue::Open(options_);
    const CsrBatch* batch = nullptr;
    Result<bool> more = true;
    while (more.ok() && *more) more = (*queue)->Next(batch);
    EXPECT_EQ(more.ok(), batch_size == 6) << more.status().message();
    if (batch_size == 6) continue;
    EXPECT_NE(more.status().message().find("a batch has room for 400 keys: use a smaller"),
              std::string::npos)
        << more.status().message();
  }
}

// Rows of 0 to 3 entries, key k in field k mod 5: through shuffling, compaction and the cache.
TEST_F(InputQueueTest, FieldsStayWithTheirKeys) {
  const int64_t label = 1;
  auto writer = RecordWriter::Create(folder_ / "rows", {});
  ASSERT_TRUE(writer.ok());
  for (int64_t n = 0; n < 200; ++n) {
    std::vector<int64_t> keys, fields;
    for (int64_t i = 0; i < n % 4; ++i) {
      keys.push_back(n * 7 % 300 + 2 - i);
      fields.push_back(keys.back() % 5);
    }
    ExampleBuilder builder;
    builder.AddInt64("label", {&label, 1});
    builder.AddInt64("index", keys);
    builder.AddInt64("field", fields);
    const std::vector<float> values(keys.size(), static_cast<float>(n % 3));
    if (n % 3 != 1) builder.AddFloat("value", values);
    std::string record;
    builder.Finish(record);
    ASSERT_TRUE(writer->Append(record).ok());
  }
  ASSERT_TRUE(writer->Close().ok());
  options_.files = {folder_ / "rows"};
  options_.batch_size = 7;
  options_.shuffle_capacity = 50;
  options_.min_after_dequeue = 20;
  options_.epochs = 3;
  for (const uint64_t num_features : {0, 1000}) {
    for (const uint64_t cache_bytes : {0, 1 << 20}) {
      options_.rows.num_features = num_features;
      options_.cache_bytes = cache_bytes;
      ASSERT_TRUE(UseFields(5, options_).ok());
      auto queue = InputQueue::Open(options_);
      ASSERT_TRUE(queue.ok()) << queue.status().message();
      const CsrBatch* batch = nullptr;
      size_t entries = 0;
      Result<bool> more = true;
      while ((more = (*queue)->Next(batch)).ok() && *more) {
        ASSERT_EQ(batch->fields.size(), batch->nnz());
        for (size_t i = 0; i < batch->nnz(); ++i) {
          EXPECT_EQ(batch->fields[i], batch->keys[batch->cols[i]] % 5);
        }
        entries += batch->nnz();
      }
      ASSERT_TRUE(more.ok()) << more.status().message();
      EXPECT_EQ(entries, 3u * 300);
    }
  }
}

TEST_F(InputQueueTest, FieldsComeFromInputsThatHaveThem) {
  MakeFiles(1, 1);
  const auto error = [&](InputFormat format, size_t num_fields) {
    options_.format = format;
    return UseFields(num_fields, options_).message();
  };
  EXPECT_EQ(error(InputFormat::kCriteo, 0), "");
  EXPECT_EQ(options_.rows.num_fields, 39u);
  EXPECT_EQ(error(InputFormat::kCriteo, 39), "");
  EXPECT_EQ(error(InputFormat::kCriteo, 40),
            "num_fields: the rows have 39 fields (the columns of Criteo text), found 40");
  EXPECT_EQ(error(InputFormat::kTfRecord, 0),
            "num_fields: expected the number of fields of the tfrecord rows, found 0");
  EXPECT_EQ(error(InputFormat::kTfRecord, 65537),
            "num_fields: expected at most 65536, found 65537");
  EXPECT_TRUE(error(InputFormat::kVw, 5).starts_with("this input has no fields: vw text has keys"));
  EXPECT_TRUE(error(InputFormat::kLibsvm, 5).starts_with("this input has no fields: libsvm text"));
  options_.rows.num_fields = 5;
  EXPECT_TRUE(options_.Validate().message().starts_with("this input has no fields: libsvm"));
  options_.format = InputFormat::kTfRecord;
  options_.rows.centers = {{1, 2}};
  EXPECT_EQ(options_.Validate().message(), "centers: expected none for rows with fields");
}

// The order is random, but the message is about the first bad row of the files.
TEST_F(InputQueueTest, BadRowsAreReportedInTheOrderOfTheFiles) {
  MakeFiles(3, 1);
  std::string text = "1 1:1\n";
  for (int row = 0; row < 500; ++row) text += "1 x:1\n";
  test::WriteFile(options_.files[0], "1 2:1\n0 3:1\n");
  for (const size_t file : {1, 2}) test::WriteFile(options_.files[file], text);
  options_.format = InputFormat::kLibsvm;
  options_.shuffle_capacity = 400;
  options_.min_after_dequeue = 200;
  for (uint64_t seed = 1; seed < 6; ++seed) {
    options_.seed = seed;
    for (const uint64_t cache_bytes : {0, 1 << 20}) {
      options_.cache_bytes = cache_bytes;
      auto queue = InputQueue::Open(options_);
      Status error;
      Drain(**queue, &error);
      EXPECT_TRUE(error.message().starts_with(options_.files[1] + ":2: offset 6: column 3: "))
          << error.message();
    }
  }
}

TEST_F(InputQueueTest, ABadFirstLineSaysWhatTheFileLooksLike) {
  MakeFiles(1, 1);
  options_.format = InputFormat::kLibsvm;
  const std::pair<std::string, std::string> cases[] = {
      {"1 |f a\n", "; the file looks like vw text: read it with format=vw"},
      {"a,b\n1,2\n", "; the file looks like CSV text: "},
      {"PAR1....\n", "; the file looks like a Parquet file: "}};
  for (const auto& [bytes, hint] : cases) {
    test::WriteFile(options_.files[0], bytes);
    auto queue = InputQueue::Open(options_);
    Status error;
    Drain(**queue, &error);
    EXPECT_NE(error.message().find(hint), std::string::npos) << error.message();
  }
}

TEST_F(InputQueueTest, IndexBeyondNumFeaturesIsAnError) {
  MakeFiles(2, 100);
  options_.rows.num_features = 50;
  auto queue = InputQueue::Open(options_);
  Status error;
  Drain(**queue, &error);
  EXPECT_NE(error.message().find("below num_features = 50"), std::string::npos) << error.message();
}

TEST_F(InputQueueTest, HashedKeysHave64Bits) {
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
  EXPECT_EQ((*skipping)->corruption().events, 3u);
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

// Across epochs and groups.
TEST_F(InputQueueTest, PeekReturnsTheNextBatchAndChangesNothing) {
  MakeFiles(3, 400);
  options_.epochs = 3;
  const auto expected = Run(options_);
  for (const size_t threads : {1, 3}) {
    options_.threads = threads;
    auto queue = InputQueue::Open(options_);
    const CsrBatch* batch = nullptr;
    for (size_t i = 0; i < expected.size(); ++i) {
      SCOPED_TRACE(i);
      if (i % 3 == 0) {
        const CsrBatch* first = (*queue)->Peek();
        ASSERT_TRUE(first);
        ASSERT_EQ(Numbers(*first), expected[i]);
      }
      ASSERT_TRUE(*(*queue)->Next(batch));
      ASSERT_EQ(Numbers(*batch), expected[i]);
    }
    EXPECT_EQ((*queue)->Peek(), nullptr);
    EXPECT_FALSE(*(*queue)->Next(batch));
  }
}

// Batches before a corrupt record are delivered even if the corruption was already detected.
TEST_F(InputQueueTest, PeekDoesNotAdvanceAnError) {
  MakeFiles(3, 300);
  std::string bytes = test::ReadFile(options_.files[2]);
  bytes[bytes.size() * 3 / 4] ^= 1;
  test::WriteFile(options_.files[2], bytes);
  Status error, peeked_error;
  auto plain = InputQueue::Open(options_);
  const auto expected = Drain(**plain, &error);
  ASSERT_FALSE(error.ok());
  auto queue = InputQueue::Open(options_);
  std::vector<std::vector<uint64_t>> batches;
  const CsrBatch* batch = nullptr;
  while (true) {
    (*queue)->Peek();
    const Result<bool> more = (*queue)->Next(batch);
    peeked_error = more.status();
    if (!more.ok() || !*more) break;
    batches.push_back(Numbers(*batch));
  }
  EXPECT_EQ(batches, expected);
  EXPECT_EQ(peeked_error.message(), error.message());
}

}  // namespace
}  // namespace millrace::io
