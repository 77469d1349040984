// SPDX-License-Identifier: Apache-2.0
// Text formats, and what all formats share.
#include "io/base/string_hash.h"
#include "io/text/criteo.h"
#include "io/text/libsvm.h"
#include "tests/tools/convert/convert_files.h"

namespace millrace::convert {
namespace {

using test::ProgramRun;
using test::RunShell;

namespace fs = std::filesystem;
using test::ReadFile;
using test::TemporaryFolder;
using test::WriteFile;

constexpr char kShared[] = MILLRACE_SHARED_DATA;

TEST(Convert, LibsvmRowsKeepOrderIndicesAndValues) {
  const TemporaryFolder folder;
  WriteFile(folder / "in", "# head\n+1 1:1 3:0.5\n\n-1 2:-2 # note\r\n0\n");
  const ProgramRun run = Convert("--shards=2 --out=" + (folder / "out") + " " + (folder / "in"));
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(
      ReadShards(folder / "out/train", 2),
      (std::vector<Record>{{{"index", "1 3 "}, {"label", "1 "}, {"value", "1.000000 0.500000 "}},
                           {{"index", "2 "}, {"label", "0 "}, {"value", "-2.000000 "}},
                           {{"index", ""}, {"label", "0 "}}}));
  EXPECT_TRUE(Contains(run.out, "3 in, 3 out, 0 skipped")) << run.out;
  EXPECT_TRUE(Contains(run.out, "keys 1 to 3: --num_features=4")) << run.out;
  EXPECT_TRUE(Contains(run.out, "1, 33.33 %")) << run.out;
  EXPECT_TRUE(Contains(run.out, "train-*-of-00002.tfrecord")) << run.out;
}

TEST(Convert, LibffmRowsKeepTheirFields) {
  const TemporaryFolder folder;
  WriteFile(folder / "in", "+1 0:1:1 38:3:0.5\n\n-1 7:2:-2 7:2:1 # note\r\n0\n");
  const std::string rest = " --out=" + folder.path() + " " + (folder / "in");
  const ProgramRun run = Convert("--shards=1" + rest);
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(
      ReadShards(folder / "train", 1),
      (std::vector<Record>{
          {{"field", "0 38 "}, {"index", "1 3 "}, {"label", "1 "}, {"value", "1.000000 0.500000 "}},
          {{"field", "7 7 "}, {"index", "2 2 "}, {"label", "0 "}, {"value", "-2.000000 1.000000 "}},
          {{"index", ""}, {"label", "0 "}}}));
  EXPECT_TRUE(Contains(run.out, "format    libffm\n")) << run.out;
  EXPECT_TRUE(Contains(run.out, "fields    0 to 38, feature \"field\"\n")) << run.out;
  const ProgramRun named = Convert("--shards=1 --name=x --index_base=1 --field_feature=f" + rest);
  ASSERT_EQ(named.status, 0) << named.err;
  EXPECT_EQ(ReadShards(folder / "x", 1)[0].at("f"), "0 38 ");
  EXPECT_EQ(ReadShards(folder / "x", 1)[0].at("index"), "0 2 ");
  WriteFile(folder / "in", "1 1:1:1\n0 2:1\n");
  const ProgramRun bad = Convert("--name=y" + rest);
  EXPECT_EQ(bad.status, 1);
  EXPECT_TRUE(Contains(bad.err, ":2: column 3: expected field:index:value, found \"2:1\""))
      << bad.err;
}

TEST(Convert, FieldsOfASpecAreWrittenOnRequest) {
  const TemporaryFolder folder;
  WriteFile(folder / "in.csv", "label,a,b\n1,x,y\n0,,z\n");
  WriteFile(folder / "spec.json",
            R"({"fields": [{"name": "a"}, {"name": "b"},
                           {"name": "ab", "rule": "cross", "of": ["a", "b"]}]})");
  const std::string rest = " --shards=1 --features=" + (folder / "spec.json") +
                           " --out=" + folder.path() + " " + (folder / "in.csv");
  ASSERT_EQ(Convert("--name=plain" + rest).status, 0);
  EXPECT_EQ(ReadShards(folder / "plain", 1)[0].count("field"), 0u);
  const ProgramRun run = Convert("--write_fields" + rest);
  ASSERT_EQ(run.status, 0) << run.err;
  const std::vector<Record> records = ReadShards(folder / "train", 1);
  EXPECT_EQ(records[0].at("field"), "0 1 2 ");
  EXPECT_EQ(records[1].at("field"), "1 ");
  EXPECT_EQ(records[0].at("index"), ReadShards(folder / "plain", 1)[0].at("index"));
}

TEST(Convert, StandardInputAndIndexBase) {
  const TemporaryFolder folder;
  const ProgramRun run = RunShell("echo '1 1:1 5:1' | " MILLRACE_BIN_DIR
                                  "/millrace-records convert --format=libsvm --index_base=1 "
                                  "--shards=1 --name=x --out=" +
                                  folder.path() + " -");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(ReadShards(folder / "x", 1)[0].at("index"), "0 4 ");
}

TEST(Convert, EveryCompressionGivesTheSameRecords) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 1000; ++i) text += std::to_string(i % 2) + " " + std::to_string(i) + ":1\n";
  WriteFile(folder / "in", text);
  std::vector<Record> plain;
  for (const auto compression : {io::Compression::kNone, io::Compression::kGzip,
                                 io::Compression::kZlib, io::Compression::kZstd}) {
    const std::string name = io::CompressionName(compression);
    const ProgramRun run = Convert("--shards=3 --compression=" + name + " --name=" + name +
                                   " --out=" + folder.path() + " " + (folder / "in"));
    ASSERT_EQ(run.status, 0) << run.err;
    const std::vector<Record> records = ReadShards(folder / name, 3, compression);
    ASSERT_EQ(records.size(), 1000u);
    if (plain.empty()) plain = records;
    EXPECT_EQ(records, plain) << name;
  }
}

TEST(Convert, BadLinesFailWithFileAndLineAndWriteNothing) {
  const TemporaryFolder folder;
  WriteFile(folder / "in", "1 1:1\n0 2:x\n");
  const ProgramRun run = Convert("--out=" + (folder / "out") + " " + (folder / "in"));
  EXPECT_EQ(run.status, 1);
  EXPECT_EQ(run.err, "millrace-records: " + (folder / "in") +
                         ":2: column 5: expected a finite value after index 2, found \"x\"\n");
  EXPECT_EQ(FilesIn(folder / "out"), std::vector<std::string>{});
}

TEST(Convert, FailureKeepsAnExistingShard) {
  const TemporaryFolder folder;
  WriteFile(folder / "good", "1 1:1\n");
  WriteFile(folder / "bad", "1 2:1\n0 0:nan\n");
  const std::string out = "--shards=1 --out=" + (folder / "out") + " ";
  ASSERT_EQ(Convert(out + (folder / "good")).status, 0);
  const std::string before = ReadFile(folder / "out/train-00000-of-00001.tfrecord");
  EXPECT_EQ(Convert("--overwrite " + out + (folder / "bad")).status, 1);
  EXPECT_EQ(ReadFile(folder / "out/train-00000-of-00001.tfrecord"), before);
  EXPECT_EQ(FilesIn(folder / "out").size(), 1u);
}

TEST(Convert, SkippedLinesAreCountedAndTheRestDelivered) {
  const TemporaryFolder folder;
  WriteFile(folder / "in", "1 1:1\nx\n2 1:1\n0 2:1\n");
  const ProgramRun run =
      Convert("--format=libsvm --on_corrupt=skip --shards=1 --out=" + folder.path() + " " +
              (folder / "in"));
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(Contains(run.out, "4 in, 2 out, 2 skipped")) << run.out;
  EXPECT_TRUE(Contains(run.out, "first skipped: " + (folder / "in") + ":2: column 1")) << run.out;
  EXPECT_EQ(ReadShards(folder / "train", 1).size(), 2u);
}

TEST(Convert, OtherLabelsAreRefusedWithoutPositiveLabel) {
  const TemporaryFolder folder;
  WriteFile(folder / "in", "1 1:1\n2 1:1\n3 1:1\n");
  const std::string rest = " --shards=1 --out=" + folder.path() + " " + (folder / "in");
  const ProgramRun refused = Convert(rest);
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(Contains(refused.err, ":2: expected the label 0, 1 or -1, found 2")) << refused.err;
  EXPECT_TRUE(Contains(refused.err, "--positive_label")) << refused.err;
  ASSERT_EQ(Convert("--positive_label=2" + rest).status, 0);
  const std::vector<Record> records = ReadShards(folder / "train", 1);
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0].at("label"), "0 ");
  EXPECT_EQ(records[1].at("label"), "1 ");
  EXPECT_EQ(records[2].at("label"), "0 ");
}

TEST(Convert, VwImportanceBecomesAWeight) {
  const TemporaryFolder folder;
  WriteFile(folder / "in", "-1 |f 3:2 |g 4\n1 2.5 |f 7\n");
  const ProgramRun run =
      Convert("--novw_hash_all --shards=1 --out=" + folder.path() + " " + (folder / "in"));
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(
      ReadShards(folder / "train", 1),
      (std::vector<Record>{
          {{"index", "3 4 "}, {"label", "0 "}, {"value", "2.000000 1.000000 "}},
          {{"index", "7 "}, {"label", "1 "}, {"value", "1.000000 "}, {"weight", "2.500000 "}}}));
  EXPECT_TRUE(Contains(run.out, "1 records, feature \"weight\"")) << run.out;
}

TEST(Convert, VwHashBitsBoundTheKeys) {
  const TemporaryFolder folder;
  WriteFile(folder / "in", "1 |f age 1000\n");
  const ProgramRun run =
      Convert("--hash_bits=9 --shards=1 --out=" + folder.path() + " " + (folder / "in"));
  ASSERT_EQ(run.status, 0) << run.err;
  const uint32_t space = io::Murmur3("f", 0);
  EXPECT_EQ(ReadShards(folder / "train", 1)[0].at("index"),
            std::to_string(io::Murmur3("age", space) & 511) + " " +
                std::to_string(io::Murmur3("1000", space) & 511) + " ");
  EXPECT_TRUE(Contains(run.out, "--num_features=512")) << run.out;
}

std::string CriteoText(const std::string& label, const std::string& first_integer,
                       const std::string& first_category) {
  return label + "\t" + first_integer + std::string(13, '\t') + first_category +
         std::string(25, '\t') + "\n";
}

TEST(Convert, CriteoVocabularyIsReusedAndUnseenValuesShareAKey) {
  const TemporaryFolder folder;
  WriteFile(folder / "train.tsv", CriteoText("1", "1", "aa") + CriteoText("0", "2", "aa"));
  WriteFile(folder / "test.tsv", CriteoText("0", "2", "bb"));
  const std::string shards = " --shards=1 --out=" + folder.path() + " ";
  const ProgramRun made =
      Convert("--vocabulary_out=" + (folder / "v.tsv") + shards + (folder / "train.tsv"));
  ASSERT_EQ(made.status, 0) << made.err;
  const ProgramRun used =
      Convert("--name=test --vocabulary=" + (folder / "v.tsv") + shards + (folder / "test.tsv"));
  ASSERT_EQ(used.status, 0) << used.err;
  // I1 has the keys 0 to 2, then two for each field.
  const std::string head = " 4 6 8 10 12 14 16 18 20 22 24 26 ";
  const std::string tail =
      " 30 32 34 36 38 40 42 44 46 48 50 52 54 56 58 60 62 64 66 68 70 72 74 76 78 ";
  EXPECT_EQ(ReadShards(folder / "train", 1)[0].at("index"), "1" + head + "28" + tail);
  EXPECT_EQ(ReadShards(folder / "train", 1)[1].at("index"), "2" + head + "28" + tail);
  EXPECT_EQ(ReadShards(folder / "test", 1)[0].at("index"), "2" + head + "27" + tail);
  EXPECT_TRUE(Contains(used.out, "--num_features=79")) << used.out;
}

TEST(Convert, VocabularyIsExtendedByNewDays) {
  const TemporaryFolder folder;
  WriteFile(folder / "day_0", CriteoText("1", "1", "aa") + CriteoText("0", "2", "aa"));
  WriteFile(folder / "day_1",
            CriteoText("0", "1", "bb") + CriteoText("0", "1", "bb") + CriteoText("1", "9", "aa"));
  const auto convert = [&](const std::string& day, const std::string& flags) {
    return Convert("--shards=1 --name=" + day + " --out=" + folder.path() + " " + flags + " " +
                   (folder / day));
  };
  const std::string old = "--vocabulary=" + (folder / "v0");
  ASSERT_EQ(convert("day_0", "--vocabulary_out=" + (folder / "v0")).status, 0);
  const ProgramRun grown =
      convert("day_1", old + " --min_count=2 --vocabulary_out=" + (folder / "v1"));
  ASSERT_EQ(grown.status, 0) << grown.err;
  EXPECT_TRUE(Contains(grown.out, "v1: 79 old keys, 1 new")) << grown.out;
  EXPECT_TRUE(Contains(grown.out, "--num_features=80")) << grown.out;
  // bb is new and gets the first new key; 9 is new and too rare; aa and 1 keep their keys.
  const auto keys = [&](const std::string& name, size_t row) {
    std::istringstream text(ReadShards(folder / name, 1)[row].at("index"));
    return std::vector<int>(std::istream_iterator<int>(text), {});
  };
  EXPECT_EQ(keys("day_1", 0)[13], 79);
  EXPECT_EQ(keys("day_1", 0)[0], keys("day_0", 0)[0]);
  EXPECT_EQ(keys("day_1", 2)[13], keys("day_0", 0)[13]);
  EXPECT_EQ(keys("day_1", 2)[0], 0);

  // Old data has the same records with the new vocabulary.
  const std::string before = ReadFile(folder / "day_0-00000-of-00001.tfrecord");
  ASSERT_EQ(convert("day_0", "--overwrite --vocabulary=" + (folder / "v1")).status, 0);
  EXPECT_EQ(ReadFile(folder / "day_0-00000-of-00001.tfrecord"), before);
}

TEST(Convert, OtherKindsOfFilesAreNamed) {
  const TemporaryFolder folder;
  WriteFile(folder / "in", "PAR1 and columns\n");
  const std::string rest = " --out=" + (folder / "out") + " " + (folder / "in");
  const ProgramRun detected = Convert(rest);
  EXPECT_EQ(detected.status, 2);
  EXPECT_TRUE(Contains(detected.err, "found a Parquet file: its rows need a feature spec"))
      << detected.err;
  const ProgramRun forced = Convert("--format=libsvm" + rest);
  EXPECT_EQ(forced.status, 1);
  EXPECT_TRUE(Contains(forced.err, "in:1: column 1: ")) << forced.err;
  EXPECT_TRUE(Contains(forced.err, "; the file looks like a Parquet file")) << forced.err;
  WriteFile(folder / "in", "user,clicked\n7,0\n");
  EXPECT_TRUE(Contains(Convert(rest).err, "found CSV text: ")) << Convert(rest).err;
  WriteFile(folder / "in", "\n");
  EXPECT_TRUE(Contains(Convert(rest).err, "found no rows; set --format")) << Convert(rest).err;
}

TEST(Convert, CorruptVocabularyIsRefused) {
  const TemporaryFolder folder;
  WriteFile(folder / "in.tsv", CriteoText("1", "1", "aa"));
  const std::string shards = " --shards=1 --out=" + folder.path() + " " + (folder / "in.tsv");
  ASSERT_EQ(Convert("--vocabulary_out=" + (folder / "v.tsv") + shards).status, 0);
  std::string text = ReadFile(folder / "v.tsv");
  text.replace(text.find("000000aa"), 8, "000000ab");
  WriteFile(folder / "v.tsv", text);
  const ProgramRun run = Convert("--overwrite --vocabulary=" + (folder / "v.tsv") + shards);
  EXPECT_EQ(run.status, 1);
  EXPECT_TRUE(Contains(run.err, "# crc32c")) << run.err;
}

TEST(Convert, ExistingShardsAreReplacedOnlyWithOverwrite) {
  const TemporaryFolder folder;
  WriteFile(folder / "one.svm", "1 1:1\n");
  WriteFile(folder / "two.svm", "0 2:1\n");
  const std::string out = "--shards=1 --out=" + folder.path() + " ", shard = "train-00000-of-00001";
  ASSERT_EQ(Convert(out + (folder / "one.svm")).status, 0);
  const ProgramRun refused = Convert(out + (folder / "two.svm"));
  EXPECT_EQ(refused.status, 2);
  EXPECT_TRUE(Contains(refused.err, (folder / shard) + ".tfrecord already exists: set --overwrite"))
      << refused.err;
  EXPECT_EQ(ReadShards(folder / "train", 1)[0].at("index"), "1 ");
  EXPECT_EQ(Convert("--overwrite " + out + (folder / "two.svm")).status, 0);
  EXPECT_EQ(ReadShards(folder / "train", 1)[0].at("index"), "2 ");
}

TEST(Convert, ShardsOfAnotherCountAreRefused) {
  const TemporaryFolder folder;
  WriteFile(folder / "in", "1 1:1\n");
  const std::string rest = " --out=" + folder.path() + " " + (folder / "in");
  ASSERT_EQ(Convert("--shards=2" + rest).status, 0);
  EXPECT_EQ(Convert("--shards=1" + rest).status, 2);
  EXPECT_EQ(Convert("--shards=2 --compression=zstd" + rest).status, 2);
  EXPECT_EQ(Convert("--shards=1 --name=test" + rest).status, 0);
}

TEST(Convert, ContradictoryFlagsAreErrorsBeforeAnyWork) {
  const TemporaryFolder folder;
  WriteFile(folder / "rows", "1 1:1\n");
  WriteFile(folder / "clicks", CriteoText("1", "1", "aa"));
  const std::string out = " --out=" + (folder / "out") + " ";
  const std::string rows = out + (folder / "rows"), clicks = out + (folder / "clicks");
  const std::pair<std::string, std::string> wrong[] = {
      {folder / "rows", "--out is missing"},
      {out, "no input"},
      {"--hash_bits=4" + rows, "--hash_bits has no effect: it belongs to --format=vw or criteo"},
      {"--vocabulary=v" + rows, "--vocabulary has no effect: it belongs to --format=criteo"},
      {clicks, "found none"},
      {"--hash_bits=4 --vocabulary=v" + clicks, "found a vocabulary and --hash_bits"},
      {"--hash_bits=4 --min_count=2" + clicks,
       "--min_count has no effect without --vocabulary_out"},
      {"--hash_bits=65" + clicks, "expected 0 to 64"},
      {"--format=csv" + rows, "--format=csv: expected --features"},
      {"--format=arff" + rows, "expected auto, libsvm, libffm, vw, criteo, mnist, images, "},
      {"--index_base=2" + rows, "expected 0 or 1"},
      {"--field_feature=f" + rows,
       "it belongs to --format=libffm, tfrecord, csv, json, table or vw"},
      {"--write_fields" + rows, "it belongs to --format=tfrecord, csv, json, table or vw"},
      {"--shards=0" + rows, "expected 1 to 1000"},
      {"--name=a/b" + rows, "without /"},
      {"--positive_label=x" + rows, "expected a number"},
      {"--on_corrupt=ignore" + rows, "ignore"},
      {"--compression=lz4" + rows, "lz4"},
      {"--format=criteo --vocabulary_out=v --out=x - </dev/null", "reads the input twice"},
  };
  for (const auto& [arguments, message] : wrong) {
    const ProgramRun run = Convert(arguments);
    EXPECT_EQ(run.status, 2) << arguments;
    EXPECT_TRUE(Contains(run.err, message)) << arguments << "\n" << run.err;
    EXPECT_FALSE(fs::exists(folder / "out")) << arguments;
  }
}

TEST(ConvertShared, A9aAgreesWithTheText) {
  SKIP_WITHOUT_SHARED_DATA();
  const TemporaryFolder folder;
  const ProgramRun run =
      Convert("--shards=3 --out=" + folder.path() + " " + kShared + "/libsvm/a9a");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(Contains(run.out, "--num_features=124")) << run.out;
  EXPECT_TRUE(Contains(run.out, "7,841, 24.08 %")) << run.out;
  const std::vector<Record> records = ReadShards(folder / "train", 3);
  ASSERT_EQ(records.size(), 32561u);
  std::ifstream lines(std::string(kShared) + "/libsvm/a9a");
  std::string line;
  for (const Record& record : records) {
    ASSERT_TRUE(std::getline(lines, line));
    std::string index;
    for (size_t at = 3; at < line.size(); ++at) {
      if (line[at] == ':') at = line.find(' ', at);
      index += line[at];
    }
    ASSERT_EQ(record.at("index"), index);
    ASSERT_EQ(record.at("label"), line[0] == '+' ? "1 " : "0 ");
  }
}

TEST(ConvertShared, EveryTextDataSetConvertsOrHasAnError) {
  SKIP_WITHOUT_SHARED_DATA();
  const TemporaryFolder folder;
  const std::pair<const char*, const char*> files[] = {
      {"libsvm/agaricus.txt.train", "6,513 out"},
      {"libsvm/agaricus.txt.test", "1,611 out"},
      {"libsvm/heart_scale", "270 out"},
      {"libsvm/rcv1_100rows_difacto", "100 out"},
      {"libsvm/spark_sample_libsvm_data.txt", "100 out"},
      {"libsvm/sklearn_svmlight_classification.txt", ":4: expected the label 0, 1 or -1, found 2"},
      {"libsvm/sklearn_svmlight_invalid_order.txt", "an index above 5 (they ascend), found 2"},
      {"libsvm/sklearn_svmlight_multilabel.txt", "found several: \"1,0\""},
      {"libsvm/sklearn_svmlight_invalid.txt", "found \"python\""},
      {"vw/rcv1_small.dat", "1,000 out"},
      {"vw/0001.dat", "200 out"}};
  for (const auto& [file, message] : files) {
    const ProgramRun run =
        Convert("--overwrite --out=" + folder.path() + " " + kShared + "/" + file);
    EXPECT_TRUE(Contains(run.out + run.err, message)) << file << "\n" << run.out << run.err;
  }
  const ProgramRun run = Convert("--overwrite --hash_bits=20 --out=" + folder.path() + " " +
                                 kShared + "/criteo/day_11_first_3000.tsv");
  EXPECT_TRUE(Contains(run.out, "3,000 out")) << run.out << run.err;
  EXPECT_TRUE(Contains(run.out, "92, 3.07 %")) << run.out;
}

}  // namespace
}  // namespace millrace::convert
