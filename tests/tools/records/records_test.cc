// SPDX-License-Identifier: Apache-2.0
// millrace-records cat, stat and verify, run as programs.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "io/example/example_encoder.h"
#include "io/record/record_format.h"
#include "io/record/record_writer.h"
#include "tests/support/program.h"

namespace millrace::records {
namespace {

using test::ProgramRun;
using test::RunProgram;
using test::RunShell;

constexpr char kRealFiles[] = MILLRACE_SHARED_DATA "/tfrecord";
constexpr char kCounter[] = "python3 " MILLRACE_SOURCE_DIR "/tests/tools/records/count_records.py";
constexpr char kParseJsonLines[] =
    "python3 -c 'import json,sys; print(sum(1 for l in sys.stdin if json.loads(l)))'";

ProgramRun Records(const std::string& arguments) {
  return RunProgram("millrace-records", arguments);
}

size_t Lines(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

void Write(const std::string& path, const std::vector<std::string>& records,
           io::WriterOptions options = {}) {
  auto writer = io::RecordWriter::Create(path, options);
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  for (const std::string& record : records) ASSERT_TRUE(writer->Append(record).ok());
  ASSERT_TRUE(writer->Close().ok());
}

std::string SparseExample(int64_t label, std::vector<uint64_t> keys, std::vector<float> values) {
  std::string record;
  io::EncodeSparseExample({}, label, keys, values, record);
  return record;
}

std::string MixedExample() {
  io::ExampleBuilder builder;
  const std::string_view texts[] = {"caf\xc3\xa9 \"x\"\n", {"\xff\0\1", 3}, ""};
  const float floats[] = {0.1f, -0.0f, 1e30f, std::numeric_limits<float>::quiet_NaN(),
                          -std::numeric_limits<float>::infinity()};
  const int64_t ints[] = {-1, std::numeric_limits<int64_t>::max()};
  builder.AddBytes("bytes", texts);
  builder.AddFloat("floats", floats);
  builder.AddInt64("ints", ints);
  builder.AddInt64("no ints", {});
  std::string record;
  builder.Finish(record);
  return record;
}

// Context {"n": [5]} and the list "l" of two steps, [1] and one without a list.
std::string SequenceExample() {
  return std::string("\x0a\x0c\x0a\x0a\x0a\x01n\x12\x05\x1a\x03\x0a\x01\x05", 14) +
         std::string("\x12\x10\x0a\x0e\x0a\x01l\x12\x09\x0a\x05\x1a\x03\x0a\x01\x01\x0a\x00", 18);
}

class RecordsTest : public testing::Test {
 protected:
  // Ten sparse examples, three of them positive.
  std::string WriteTen(const std::string& name, io::WriterOptions options = {}) {
    std::vector<std::string> records;
    for (uint64_t i = 0; i < 10; ++i) {
      records.push_back(SparseExample(i < 3, {i, 100 + i, 1000 * i}, {1, 1, 1}));
    }
    const std::string path = folder_ / name;
    Write(path, records, options);
    return path;
  }

  test::TemporaryFolder folder_;
};

TEST_F(RecordsTest, CatShowsEveryKindOfRecord) {
  const std::string path = folder_ / "mixed.tfrecord";
  Write(path,
        {SparseExample(1, {3, 17}, {1, 0.5}), MixedExample(), SequenceExample(), "hello", ""});
  const ProgramRun run = Records("cat " + path);
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.out, R"({"features":{"index":[3,17],"label":[1],"value":[1.0,0.5]}}
{"features":{"bytes":["café \"x\"\n",{"base64":"/wAB"},""],"floats":[0.1,-0.0,1e+30,"NaN","-Infinity"],"ints":[-1,9223372036854775807],"no ints":[]}}
{"context":{"n":[5]},"feature_lists":{"l":[[1],null]}}
{"raw":"aGVsbG8=","size":5}
{"features":{}}
)");
  EXPECT_EQ(run.err, "");
}

TEST_F(RecordsTest, CatSkipsAndLimitsAcrossFiles) {
  const std::string one = WriteTen("one.tfrecord");
  const std::string two = WriteTen("two.tfrecord");
  const std::string all = Records("cat " + one + " " + two).out;
  EXPECT_EQ(Lines(all), 20u);
  const std::string part = Records("cat --skip=8 --limit=4 " + one + "," + two).out;
  EXPECT_EQ(Lines(part), 4u);
  EXPECT_NE(all.find(part), std::string::npos);
  EXPECT_EQ(Records("cat --skip=20 " + one + " " + two).out, "");
  EXPECT_EQ(Records("cat '" + folder_.path() + "/*.tfrecord'").out, all);
  EXPECT_EQ(Records("cat - <" + one).out + Records("cat " + two).out, all);
}

TEST_F(RecordsTest, CatWritesRawBytesAndHex) {
  const std::string path = folder_ / "two.tfrecord";
  Write(path, {std::string("a\0\n", 3), "\xff"});
  EXPECT_EQ(Records("cat --raw " + path).out, std::string("a\0\n\xff", 4));
  EXPECT_EQ(Records("cat --hex " + path).out, "61000a\nff\n");
  const ProgramRun both = Records("cat --hex --raw " + path);
  EXPECT_EQ(both.status, 2);
  EXPECT_NE(both.err.find("--raw and --hex"), std::string::npos) << both.err;
}

TEST_F(RecordsTest, CatIntoHeadEndsQuietly) {
  const std::string path = folder_ / "many.tfrecord";
  Write(path, std::vector<std::string>(20'000, SparseExample(1, {3, 17}, {1, 1})));
  const ProgramRun run = Records("cat " + path + " | head -n 2");
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(Lines(run.out), 2u);
  EXPECT_EQ(run.err, "");
}

TEST_F(RecordsTest, CatReportsAFullDisk) {
  const ProgramRun run = Records("cat " + WriteTen("ten.tfrecord") + " >/dev/full");
  EXPECT_EQ(run.status, 1);
  EXPECT_NE(run.err.find("standard output"), std::string::npos) << run.err;
}

TEST_F(RecordsTest, StatShowsLabelsKeysAndValues) {
  const ProgramRun run = Records("stat " + WriteTen("ten.tfrecord"));
  EXPECT_EQ(run.status, 0) << run.err;
  for (const char* line : {"10: 10 Example, 0 SequenceExample, 0 other",
                           "      0        7  70.00 %\n      1        3  30.00 %\n",
                           "keys: 30 from 0 to 9000, about 29 distinct; --num_features=9001",
                           "values: all ones", "            2-3       10  100.00 %"}) {
    EXPECT_NE(run.out.find(line), std::string::npos) << line << "\nin\n" << run.out;
  }
}

TEST_F(RecordsTest, StatShowsValuesThatAreNotOne) {
  const std::string path = folder_ / "values.tfrecord";
  Write(path, {SparseExample(1, {3, 17}, {1, -0.5}), SparseExample(0, {4}, {})});
  const std::string out = Records("stat " + path).out;
  EXPECT_NE(out.find("values: 2 from -0.5 to 1, 50.00 % ones; 1 records without (all ones)"),
            std::string::npos)
      << out;
}

TEST_F(RecordsTest, StatIsTheSameWithAnyNumberOfThreads) {
  std::string files;
  for (int i = 0; i < 7; ++i) {
    const auto compression = static_cast<io::Compression>(i % 4);
    files += " " + WriteTen("f" + std::to_string(i), {.compression = compression});
  }
  const ProgramRun one = Records("stat --json --threads=1" + files);
  EXPECT_EQ(one.status, 0) << one.err;
  EXPECT_NE(one.out.find(R"("compression":"gzip, none, zlib, zstd")"), std::string::npos);
  EXPECT_NE(one.out.find(R"("records":70,)"), std::string::npos);
  for (const char* threads : {"2", "3", "16"}) {
    EXPECT_EQ(Records("stat --json --threads=" + std::string(threads) + files).out, one.out);
  }
}

TEST_F(RecordsTest, VerifyAcceptsGoodFiles) {
  const ProgramRun run = Records("verify " + WriteTen("ten.tfrecord"));
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.out.find("1 file, 10 good records, "), 0u) << run.out;
  EXPECT_NE(run.out.find(": all good\n"), std::string::npos) << run.out;
}

TEST_F(RecordsTest, VerifyNamesFileAndOffsetOfAnyFlippedBit) {
  const std::string whole = test::ReadFile(WriteTen("ten.tfrecord"));
  const std::string path = folder_ / "bad.tfrecord";
  for (size_t at = 0; at < whole.size(); at += 7) {
    SCOPED_TRACE(at);
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << (at % 8)));
    test::WriteFile(path, bytes);
    const ProgramRun run = Records("verify " + path);
    ASSERT_EQ(run.status, 1) << run.out;
    ASSERT_EQ(run.out.find(path + ": offset "), 0u) << run.out;
    ASSERT_NE(run.out.find("expected"), std::string::npos) << run.out;
    ASSERT_NE(run.out.find("1 file, 9 good records"), std::string::npos) << run.out;
    ASSERT_NE(run.out.find("1 corrupt region in 1 file"), std::string::npos) << run.out;
  }
}

TEST_F(RecordsTest, VerifyListsEveryCorruptRegion) {
  std::string bytes = test::ReadFile(WriteTen("ten.tfrecord"));
  const std::string path = folder_ / "bad.tfrecord";
  for (const size_t at : {size_t{20}, bytes.size() / 2, bytes.size() - 1}) bytes[at] ^= 4;
  test::WriteFile(path, bytes);
  const ProgramRun run = Records("verify " + path + " " + (folder_ / "ten.tfrecord"));
  EXPECT_EQ(run.status, 1);
  EXPECT_EQ(Lines(run.out), 4u) << run.out;
  EXPECT_NE(run.out.find("2 files, 17 good records"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("3 corrupt regions in 1 file"), std::string::npos) << run.out;
}

TEST_F(RecordsTest, EveryTruncationIsCorruptUnlessBetweenRecords) {
  const std::string whole = test::ReadFile(WriteTen("ten.tfrecord"));
  const std::string path = folder_ / "cut.tfrecord";
  size_t boundary = 0;
  for (size_t size = 0; size < whole.size(); ++size) {
    SCOPED_TRACE(size);
    const bool between = size == boundary;
    if (between) boundary += 16 + io::LoadU64(whole.data() + size);
    if (!between && size % 5 != 0) continue;
    test::WriteFile(path, whole.substr(0, size));
    const ProgramRun run = Records("verify " + path);
    ASSERT_EQ(run.status, between ? 0 : 1) << run.out;
    ASSERT_EQ(run.out.find("truncated record") == std::string::npos, between) << run.out;
  }
}

TEST_F(RecordsTest, CorruptionStopsCatAndStatUnlessSkipped) {
  std::string bytes = test::ReadFile(WriteTen("ten.tfrecord"));
  const std::string path = folder_ / "bad.tfrecord";
  bytes[bytes.size() / 2] ^= 4;
  test::WriteFile(path, bytes);
  for (const char* command : {"cat ", "stat "}) {
    const ProgramRun stopped = Records(command + path);
    EXPECT_EQ(stopped.status, 1);
    EXPECT_NE(stopped.err.find(path + ": offset "), std::string::npos) << stopped.err;
  }
  const ProgramRun skipped = Records("cat --on_corrupt=skip " + path);
  EXPECT_EQ(skipped.status, 0);
  EXPECT_EQ(Lines(skipped.out), 9u);
  EXPECT_NE(skipped.err.find("skipped 1 corrupt region,"), std::string::npos) << skipped.err;
  EXPECT_NE(Records("stat --on_corrupt=skip " + path).out.find("corrupt"), std::string::npos);
}

TEST_F(RecordsTest, VerifyExamplesRefusesOtherRecords) {
  const std::string path = folder_ / "text.tfrecord";
  Write(path, {SparseExample(1, {3}, {1}), "hello world"});
  EXPECT_EQ(Records("verify " + path).status, 0);
  const ProgramRun run = Records("verify --examples " + path);
  EXPECT_EQ(run.status, 1);
  EXPECT_EQ(run.out.find(path + ": offset "), 0u) << run.out;
  EXPECT_NE(run.out.find("not an Example"), std::string::npos) << run.out;
}

TEST_F(RecordsTest, WrongCommandLinesAreRefused) {
  for (const char* command : {"cat", "stat", "verify"}) {
    SCOPED_TRACE(command);
    EXPECT_EQ(Records(command).status, 2);
    EXPECT_EQ(Records(std::string(command) + " " + (folder_ / "nowhere")).status, 1);
    EXPECT_NE(Records(std::string(command) + " " + folder_.path()).status, 0);  // a folder
  }
  const ProgramRun run = Records("cat --on_corrupt=maybe x");
  EXPECT_EQ(run.status, 2);
  EXPECT_NE(run.err.find("value 'maybe'; expected fail or skip"), std::string::npos) << run.err;
}

TEST_F(RecordsTest, RealFilesAgreeWithAnIndependentDecoder) {
  SKIP_WITHOUT_SHARED_DATA();
  const ProgramRun counted = RunShell(std::string(kCounter) + " " + kRealFiles + "/*");
  ASSERT_EQ(counted.status, 0) << counted.err;
  std::istringstream lines(counted.out);
  size_t files = 0;
  size_t records = 0;
  size_t bytes = 0;
  for (std::string path; lines >> records >> bytes >> path; ++files) {
    SCOPED_TRACE(path);
    const std::string count = std::to_string(records);
    EXPECT_EQ(Lines(Records("cat " + path).out), records);
    EXPECT_EQ(Records("cat " + path + " | " + kParseJsonLines).out, count + "\n");
    EXPECT_EQ(Records("cat --raw " + path).out.size(), bytes);
    EXPECT_NE(Records("stat --json " + path).out.find("\"records\":" + count + ","),
              std::string::npos);
    const ProgramRun verified = Records("verify " + path);
    EXPECT_EQ(verified.status, 0) << verified.out;
    EXPECT_EQ(verified.out.find("1 file, " + count + " good record"), 0u) << verified.out;
  }
  EXPECT_GE(files, 14u);
}

TEST_F(RecordsTest, RealFilesHaveTheExpectedKinds) {
  SKIP_WITHOUT_SHARED_DATA();
  const std::pair<const char*, const char*> expected[] = {
      {"gdmix_fe_lbfgs_train.tfrecord", "32: 32 Example, 0 SequenceExample, 0 other"},
      {"gdmix_grouped_per_member.tfrecord", "2: 0 Example, 2 SequenceExample, 0 other"},
      {"torchdata_sequence_example.tfrecord", "4: 0 Example, 4 SequenceExample, 0 other"},
      {"sagemaker_100.tfrecords", "100: 0 Example, 0 SequenceExample, 100 other"},
      {"bigdl_text.tfrecord", "1: 0 Example, 0 SequenceExample, 1 other"},
      {"tfx_next_page.tfrecord.gz", "100: 100 Example, 0 SequenceExample, 0 other"},
      {"ydf_toy.tfe-tfrecord-00000-of-00002", "compression gzip"},
  };
  for (const auto& [name, line] : expected) {
    const std::string out = Records("stat " + std::string(kRealFiles) + "/" + name).out;
    EXPECT_NE(out.find(line), std::string::npos) << name << "\n" << out;
  }
}

}  // namespace
}  // namespace millrace::records
