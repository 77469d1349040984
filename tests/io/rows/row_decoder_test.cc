// SPDX-License-Identifier: Apache-2.0
#include "io/rows/row_decoder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <thread>

#include "io/example/varint_list.h"
#include "io/record/record_writer.h"
#include "tests/support/test_files.h"

namespace millrace::io {
namespace {

Status Append(RowDecoder& decoder, std::string line, BatchBuilder& rows) {
  const size_t size = line.size();
  line.append(kVarintReadSlack, '\0');
  return decoder.Append({line.data(), size}, rows);
}

// Files that cannot be read are left to the reader, which reports them.
TEST(InputFormat, IsDetectedByTheNameIfTheContentDoesNotTell) {
  EXPECT_EQ(*DetectInputFormat({"a.libsvm", "b.svm.gz"}), InputFormat::kLibsvm);
  EXPECT_EQ(*DetectInputFormat({"x.vw"}), InputFormat::kVw);
  EXPECT_EQ(*DetectInputFormat({"a.libffm", "b.ffm.zst"}), InputFormat::kLibffm);
  EXPECT_EQ(*DetectInputFormat({"day_1.tsv.zst"}), InputFormat::kCriteo);
  EXPECT_EQ(*DetectInputFormat({"x.csv.gz"}), InputFormat::kCsv);
  EXPECT_EQ(*DetectInputFormat({"x.jsonl"}), InputFormat::kJson);
  EXPECT_EQ(*DetectInputFormat({"train-00000-of-00002"}), InputFormat::kTfRecord);
  EXPECT_EQ(DetectInputFormat({"a.libsvm", "b.tfrecord"}).status().code(), Code::kInvalid);
  EXPECT_EQ(InputFormatFromName("arff").status().code(), Code::kInvalid);
  const test::TemporaryFolder folder;
  test::WriteFile(folder / "empty", "");
  test::WriteFile(folder / "empty.vw", "# nothing\n");
  test::WriteFile(folder / "bad.svm", "what,is this\n");
  EXPECT_EQ(*DetectInputFormat({folder / "empty"}), InputFormat::kTfRecord);
  EXPECT_EQ(*DetectInputFormat({folder / "empty.vw"}), InputFormat::kVw);
  EXPECT_EQ(*DetectInputFormat({folder / "bad.svm"}), InputFormat::kLibsvm);
}

TEST(InputFormat, IsDetectedByTheContentFirst) {
  const test::TemporaryFolder folder;
  const auto detected = [&](const std::string& name, const std::string& bytes) {
    test::WriteFile(folder / name, bytes);
    return DetectInputFormat({folder / name});
  };
  EXPECT_EQ(*detected("a9a", "-1 3:1 11:1\n"), InputFormat::kLibsvm);
  EXPECT_EQ(*detected("rows", "-1 0:3:1 2:11:1\n"), InputFormat::kLibffm);
  EXPECT_EQ(*detected("rows.ffm", "0\n1 0:3:1\n"), InputFormat::kLibffm);
  EXPECT_EQ(*detected("misnamed.ffm", "-1 |f a\n"), InputFormat::kVw);
  EXPECT_EQ(*detected("rows.dat", "\n# rows\n1 |f a\n"), InputFormat::kVw);
  EXPECT_EQ(*detected("misnamed.libsvm", "1 |f a\n"), InputFormat::kVw);
  EXPECT_EQ(*detected("day_0", "0" + std::string(39, '\t') + "\n"), InputFormat::kCriteo);
  EXPECT_EQ(*detected("rows", "user,clicked\n1,0\n"), InputFormat::kCsv);
  EXPECT_EQ(*detected("rows.tsv", "user\tclicked\n1\t0\n"), InputFormat::kCsv);
  EXPECT_EQ(*detected("rows.csv", "1 |f a\n"), InputFormat::kVw);
  EXPECT_EQ(*detected("rows", "{\"clicked\": 1}\n"), InputFormat::kJson);
  EXPECT_EQ(*detected("empty.csv.gz", ""), InputFormat::kCsv);
  EXPECT_EQ(*detected("rows.data", "PAR1...."), InputFormat::kTable);
  EXPECT_EQ(*detected("empty.parquet", ""), InputFormat::kTable);
  EXPECT_EQ(*DetectInputFormat({"sql:SELECT 1 AS a, 2 AS b"}), InputFormat::kTable);
  EXPECT_TRUE(HasKnownExtension("rows.parquet"));
  EXPECT_TRUE(HasKnownExtension("sql:FROM x"));
  EXPECT_EQ(*detected("empty.ndjson", ""), InputFormat::kJson);
  EXPECT_EQ(FramingOf(InputFormat::kCsv), Framing::kCsv);
  EXPECT_EQ(FramingOf(InputFormat::kJson), Framing::kLines);
  auto writer = RecordWriter::Create(folder / "misnamed.vw", {});
  ASSERT_TRUE(writer.ok() && writer->Append("record").ok() && writer->Close().ok());
  EXPECT_EQ(*DetectInputFormat({folder / "misnamed.vw"}), InputFormat::kTfRecord);
  EXPECT_EQ(DetectInputFormat({folder / "a9a", folder / "day_0"}).status().message(),
            "files of different formats: " + folder / "a9a" + " looks like libsvm, " +
                folder / "day_0" + " like criteo; name the format");
}

TEST(InputFormat, OtherKindsOfFilesAreNamed) {
  const test::TemporaryFolder folder;
  const std::pair<std::string, std::string> cases[] = {
      {"FEA1xxxx", "a Feather file"}, {"Obj\x01xxxx", "an Avro file"},
      {"ORCxxxx", "an ORC file"},     {"PK\x03\x04xxxx", "a zip file"},
      {"<table>\n", "XML or HTML"},   {"[{\"a\": 1}]\n", "JSON that is not one object per line"}};
  for (const auto& [bytes, what] : cases) {
    test::WriteFile(folder / "data", bytes);
    const Result<InputFormat> format = DetectInputFormat({folder / "data"});
    ASSERT_FALSE(format.ok()) << what;
    EXPECT_TRUE(
        format.status().message().starts_with(folder / "data" +
                                              ": expected TFRecords, Parquet, CSV, JSON lines, or "
                                              "lines of libsvm, libffm, VW or Criteo text, found " +
                                              what + ": "))
        << format.status().message();
  }
}

TEST(InputFormat, StreamsAreDetectedAndDeliveredWhole) {
  const test::TemporaryFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::string text = "1 3:1\n0 4:2\n1 5:1\n";
  std::jthread writer([&] {
    std::ofstream out(pipe);
    out << text.substr(0, 13) << std::flush;  // two lines are enough
    out << text.substr(13);
  });
  EXPECT_EQ(*DetectInputFormat({pipe}), InputFormat::kLibsvm);
  EXPECT_EQ(*DetectInputFormat({pipe}), InputFormat::kLibsvm);  // the stream is still open
  Result<OpenedSource> source = OpenSource(pipe);
  ASSERT_TRUE(source.ok()) << source.status().message();
  std::string bytes(100, '\0');
  size_t size = 0;
  EXPECT_TRUE(source->bytes->Read(bytes, &size).ok());
  EXPECT_EQ(bytes.substr(0, size), text);
}

TEST(RowDecoder, RowsOfNamedColumnsNeedAFeatureSpec) {
  for (const auto& [format, name] :
       {std::pair(InputFormat::kCsv, "CSV"), std::pair(InputFormat::kJson, "JSON")}) {
    BatchBuilder rows;
    rows.Clear(false);
    const auto decoder = MakeRowDecoder(format, {});
    EXPECT_EQ(decoder->Append("1,2", rows).message(),
              std::string(name) +
                  " rows need a feature spec: millrace-records infer FILES writes "
                  "one; pass it as features");
  }
}

TEST(RowDecoder, LibsvmRowsAreCheckedLikeExamples) {
  const auto decoder = MakeRowDecoder(InputFormat::kLibsvm, {.num_features = 10, .index_base = 1});
  BatchBuilder rows;
  rows.Clear(false);
  ASSERT_TRUE(Append(*decoder, "-1 1:1 10:1", rows).ok());
  ASSERT_TRUE(Append(*decoder, "+1 2:0.5", rows).ok());
  EXPECT_EQ(Append(*decoder, "3 2:0.5", rows).message(),
            "label: expected 0, 1 or -1, found 3 (the option positive_label makes two classes of "
            "many)");
  EXPECT_EQ(Append(*decoder, "1 11:1", rows).message(),
            "index: expected 0 to below num_features = 10, found 10; a model with this index needs "
            "num_features=11 or more");
  rows.Trim();
  EXPECT_EQ(rows.batch.rows(), 2u);
  EXPECT_EQ((std::vector<uint32_t>(rows.batch.cols.begin(), rows.batch.cols.end())),
            (std::vector<uint32_t>{0, 9, 1}));
  EXPECT_EQ((std::vector<float>(rows.batch.values.begin(), rows.batch.values.end())),
            (std::vector<float>{1, 1, 0.5}));
  EXPECT_EQ((std::vector<float>(rows.batch.labels.begin(), rows.batch.labels.end())),
            (std::vector<float>{0, 1}));
}

TEST(RowDecoder, KeyOfTheInterceptIsReserved) {
  BatchBuilder rows;
  rows.Clear(true);
  const std::string key = "18446744073709551615";
  for (const auto& [format, line] : {std::pair(InputFormat::kLibsvm, "1 " + key + ":1"),
                                     std::pair(InputFormat::kVw, "1 |f " + key)}) {
    EXPECT_EQ(Append(*MakeRowDecoder(format, {.hash_all = false}), line, rows).message(),
              "index: expected any 64-bit key but 18446744073709551615 (-1), which is reserved "
              "for the intercept, found it");
  }
  EXPECT_EQ(rows.batch.rows(), 0u);
}

TEST(RowDecoder, TooLargeVwKeysAreToldFromHashes) {
  const auto decoder = MakeRowDecoder(InputFormat::kVw, {.num_features = 1000, .hash_all = false});
  BatchBuilder rows;
  rows.Clear(false);
  const std::string number = Append(*decoder, "1 |f 1000", rows).message();
  EXPECT_NE(number.find("num_features=1001"), std::string::npos) << number;
  const std::string name = Append(*decoder, "1 |f name", rows).message();
  EXPECT_NE(name.find("hash_bits=9"), std::string::npos) << name;
}

// The hash bits are given: num_features is what is wrong.
TEST(RowDecoder, TooLargeHashesOfGivenBitsAdviseNumFeatures) {
  const auto decoder = MakeRowDecoder(InputFormat::kVw, {.num_features = 3766, .hash_bits = 20});
  BatchBuilder rows;
  rows.Clear(false);
  const std::string what = Append(*decoder, "1 |f name", rows).message();
  EXPECT_NE(what.find("hash_bits=20 makes keys below 2^20: raise num_features to 1048576"),
            std::string::npos)
      << what;
}

TEST(RowDecoder, VwImportanceBecomesTheWeight) {
  const auto decoder = MakeRowDecoder(InputFormat::kVw, {});
  BatchBuilder rows;
  rows.Clear(true);
  ASSERT_TRUE(Append(*decoder, "1 |f 3:2 name", rows).ok());
  ASSERT_TRUE(Append(*decoder, "-1 2.5 |f 4", rows).ok());
  EXPECT_EQ((std::vector<float>(rows.batch.weights.begin(), rows.batch.weights.end())),
            (std::vector<float>{1, 2.5}));
  EXPECT_EQ(rows.nnz(), 3u);
}

TEST(RowDecoder, CriteoRowsHaveAKeyAField) {
  const auto decoder =
      MakeRowDecoder(InputFormat::kCriteo, {.num_features = 1 << 20, .hash_bits = 20});
  BatchBuilder rows;
  rows.Clear(false);
  ASSERT_TRUE(Append(*decoder, "1" + std::string(39, '\t'), rows).ok());
  EXPECT_EQ(rows.nnz(), 39u);
  EXPECT_TRUE(rows.batch.values.empty());
}

std::vector<float> Floats(const PodVector<float>& values) { return {values.begin(), values.end()}; }
std::vector<uint64_t> Keys(const PodVector<uint64_t>& keys) { return {keys.begin(), keys.end()}; }

TEST(RowDecoder, UnknownKeysAreLeftOutWithTheirValues) {
  std::string example;
  const uint64_t keys[] = {3, 9, 10, uint64_t{1} << 40};
  const float values[] = {.5f, -1, 2, 3};
  EncodeSparseExample({}, 1, keys, values, example);
  const struct {
    InputFormat format;
    std::string row;
  } cases[] = {{InputFormat::kTfRecord, example},
               {InputFormat::kLibsvm, "1 3:0.5 9:-1 10:2 1099511627776:3"},
               {InputFormat::kVw, "1 |f 3:0.5 9:-1 10:2 1099511627776:3"}};
  for (const auto& [format, row] : cases) {
    SCOPED_TRACE(InputFormatName(format));
    const auto decoder = MakeRowDecoder(
        format, {.num_features = 10, .unknown_key = UnknownKey::kLeaveOut, .hash_all = false});
    BatchBuilder rows;
    rows.Clear(false);
    const Status appended = Append(*decoder, row, rows);
    ASSERT_TRUE(appended.ok()) << appended.message();
    rows.Trim();
    EXPECT_EQ((std::vector<uint32_t>(rows.batch.cols.begin(), rows.batch.cols.end())),
              (std::vector<uint32_t>{3, 9}));
    EXPECT_EQ(Floats(rows.batch.values), (std::vector<float>{.5f, -1}));
    EXPECT_EQ(Keys(rows.batch.unknown_keys), (std::vector<uint64_t>{10, uint64_t{1} << 40}));
    EXPECT_EQ(Floats(rows.batch.unknown_values), (std::vector<float>{2, 3}));
    rows.Clear(false);
    EXPECT_TRUE(rows.batch.unknown_keys.empty());
    EXPECT_FALSE(Append(*MakeRowDecoder(format, {.num_features = 10}), row, rows).ok());
  }
}

TEST(RowDecoder, RowWithAKeyThatTheModelDoesNotKnowIsAnErrorAndLeavesNoTrace) {
  for (const uint64_t num_features : {100, 0}) {
    SCOPED_TRACE(num_features);
    RowOptions options;
    options.num_features = num_features;
    options.knows_key = [](uint64_t key) { return key < 7; };
    options.hash_all = false;
    const auto decoder = MakeRowDecoder(InputFormat::kVw, options);
    BatchBuilder rows;
    rows.Clear(num_features == 0);
    ASSERT_TRUE(Append(*decoder, "1 2 |f 3 6:2", rows).ok());
    EXPECT_EQ(Append(*decoder, "0 3 |f 3:5 7", rows).message(),
              "key 7: expected a weight in the model, found none");
    ASSERT_TRUE(Append(*decoder, "0 |f 5", rows).ok());
    ASSERT_TRUE(Append(*decoder, "# a comment", rows).ok());
    EXPECT_EQ(rows.batch.rows(), 2u);
    EXPECT_EQ(rows.nnz(), 3u);
    EXPECT_EQ(Floats(rows.batch.values), (std::vector<float>{1, 2, 1}));
    EXPECT_EQ(Floats(rows.batch.weights), (std::vector<float>{2, 1}));
    EXPECT_EQ(Floats(rows.batch.labels), (std::vector<float>{1, 0}));
  }
}

TEST(RowDecoder, LibffmRowsHaveFieldsIfTheyAreWanted) {
  for (const size_t num_fields : {0, 5}) {
    const auto decoder = MakeRowDecoder(
        InputFormat::kLibffm, {.num_features = 10, .index_base = 1, .num_fields = num_fields});
    BatchBuilder rows;
    rows.Clear(false);
    ASSERT_TRUE(Append(*decoder, "-1 4:3:0.5 0:10:2", rows).ok());
    ASSERT_TRUE(Append(*decoder, "# a comment", rows).ok());
    ASSERT_TRUE(Append(*decoder, "1 3:1:1", rows).ok());
    rows.Trim();
    EXPECT_EQ((std::vector<uint32_t>(rows.batch.cols.begin(), rows.batch.cols.end())),
              (std::vector<uint32_t>{2, 9, 0}));
    EXPECT_EQ(Floats(rows.batch.values), (std::vector<float>{.5f, 2, 1}));
    EXPECT_EQ(Floats(rows.batch.labels), (std::vector<float>{0, 1}));
    EXPECT_EQ((std::vector<uint16_t>(rows.batch.fields.begin(), rows.batch.fields.end())),
              num_fields > 0 ? (std::vector<uint16_t>{4, 0, 3}) : std::vector<uint16_t>());
    const Status out_of_range = Append(*decoder, "1 0:1:1 5:1:1", rows);
    EXPECT_EQ(
        out_of_range.message(),
        num_fields > 0 ? "field: expected fields from 0 to below num_fields = 5, found 5" : "");
  }
  BatchBuilder rows;
  rows.Clear(false);
  const auto libsvm = MakeRowDecoder(InputFormat::kLibsvm, {.num_features = 10, .num_fields = 5});
  EXPECT_EQ(Append(*libsvm, "1 3:1", rows).message(), "this row has no fields");
}

TEST(RowDecoder, CriteoColumnsAreFields) {
  const auto decoder = MakeRowDecoder(InputFormat::kCriteo,
                                      {.num_features = 1 << 10, .hash_bits = 10, .num_fields = 39});
  BatchBuilder rows;
  rows.Clear(false);
  ASSERT_TRUE(Append(*decoder, "1" + std::string(39, '\t'), rows).ok());
  ASSERT_EQ(rows.batch.fields.size(), 39u);
  for (uint16_t i = 0; i < 39; ++i) EXPECT_EQ(rows.batch.fields[i], i);
  rows.DropRow();
  EXPECT_TRUE(rows.batch.fields.empty());
}

TEST(RowDecoder, FieldsFollowTheirEntries) {
  std::string example;
  const int64_t keys[] = {12, 3, 40, 9}, fields[] = {0, 1, 2, 1}, label = 1;
  ExampleBuilder builder;
  builder.AddInt64("label", {&label, 1});
  builder.AddInt64("index", keys);
  builder.AddInt64("field", fields);
  builder.Finish(example);
  RowOptions options = {.num_features = 10, .unknown_key = UnknownKey::kLeaveOut, .num_fields = 3};
  BatchBuilder rows;
  rows.Clear(false);
  ASSERT_TRUE(Append(*MakeRowDecoder(InputFormat::kTfRecord, options), example, rows).ok());
  rows.Trim();
  EXPECT_EQ((std::vector<uint32_t>(rows.batch.cols.begin(), rows.batch.cols.end())),
            (std::vector<uint32_t>{3, 9}));
  EXPECT_EQ((std::vector<uint16_t>(rows.batch.fields.begin(), rows.batch.fields.end())),
            (std::vector<uint16_t>{1, 1}));
  options = {
      .num_features = 100, .knows_key = [](uint64_t key) { return key != 40; }, .num_fields = 3};
  rows.Clear(false);
  EXPECT_FALSE(Append(*MakeRowDecoder(InputFormat::kTfRecord, options), example, rows).ok());
  EXPECT_TRUE(rows.batch.fields.empty());
}

}  // namespace
}  // namespace millrace::io
