// millrace-records convert, run as a program; its files are read with the record reader and the
// general decoder.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "io/example/feature_view.h"
#include "io/record/record_reader.h"
#include "io/record/record_writer.h"
#include "io/text/criteo.h"
#include "io/text/libsvm.h"
#include "io/text/string_hash.h"
#include "tests/tools/run_program.h"
#include "tools/convert/image_header.h"

namespace millrace::tools {
namespace {

namespace fs = std::filesystem;
using test::ReadFile;
using test::TemporaryFolder;
using test::WriteFile;

constexpr char kShared[] = MILLRACE_SHARED_DATA;

ProgramRun Convert(const std::string& arguments) {
  return RunProgram("millrace-records", "convert " + arguments);
}

// Features as text, so that whole records compare at once.
using Record = std::map<std::string, std::string>;

Record Decode(std::string_view bytes) {
  io::ExampleView view;
  const io::Status parsed = io::ParseExample(bytes, view);
  EXPECT_TRUE(parsed.ok()) << parsed.message();
  Record record;
  for (const io::FeatureView& feature : view.features()) {
    std::string text;
    for (const std::string_view value : feature.bytes) text += std::string(value);
    for (const float value : feature.floats) text += std::to_string(value) + " ";
    for (const int64_t value : feature.ints) text += std::to_string(value) + " ";
    record[std::string(feature.name)] = text;
  }
  return record;
}

std::vector<Record> ReadShard(const std::string& path) {
  std::vector<Record> records;
  io::Result<io::RecordReader> reader = io::RecordReader::Open(path);
  EXPECT_TRUE(reader.ok()) << reader.status().message();
  if (!reader.ok()) return records;
  for (io::RecordView record;;) {
    const io::Result<bool> more = reader->Next(record);
    EXPECT_TRUE(more.ok()) << more.status().message();
    if (!more.ok() || !*more) return records;
    records.push_back(Decode(record.bytes));
  }
}

// All records in the order of the input: shards were dealt in turn.
std::vector<Record> ReadShards(const std::string& base, size_t shards,
                               io::Compression compression = io::Compression::kNone) {
  std::vector<std::vector<Record>> parts;
  size_t total = 0;
  for (size_t i = 0; i < shards; ++i) {
    parts.push_back(ReadShard(io::ShardName(base, i, shards, compression)));
    total += parts.back().size();
  }
  std::vector<Record> records;
  for (size_t i = 0; i < total; ++i) records.push_back(parts[i % shards].at(i / shards));
  return records;
}

std::vector<std::string> FilesIn(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

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

TEST(Convert, BadLinesFailWithFileAndLineAndLeaveNothing) {
  const TemporaryFolder folder;
  WriteFile(folder / "in", "1 1:1\n0 2:x\n");
  const ProgramRun run = Convert("--out=" + (folder / "out") + " " + (folder / "in"));
  EXPECT_EQ(run.status, 1);
  EXPECT_EQ(run.err, "millrace-records: " + (folder / "in") +
                         ":2: column 5: expected a finite value behind index 2, found \"x\"\n");
  EXPECT_EQ(FilesIn(folder / "out"), std::vector<std::string>{});
}

TEST(Convert, FailureLeavesAnExistingShardAsItWas) {
  const TemporaryFolder folder;
  WriteFile(folder / "good", "1 1:1\n");
  WriteFile(folder / "bad", "1 2:1\n0 0:nan\n");
  const std::string out = "--shards=1 --out=" + (folder / "out") + " ";
  ASSERT_EQ(Convert(out + (folder / "good")).status, 0);
  const std::string before = ReadFile(folder / "out/train-00000-of-00001.tfrecord");
  EXPECT_EQ(Convert(out + (folder / "bad")).status, 1);
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

TEST(Convert, OtherLabelsAreRefusedUnlessOneIsMadeThePositive) {
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
  const ProgramRun run = Convert("--shards=1 --out=" + folder.path() + " " + (folder / "in"));
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
  const uint64_t age = io::HashString("age", io::HashString("f")) & 511;
  EXPECT_EQ(ReadShards(folder / "train", 1)[0].at("index"), std::to_string(age) + " 488 ");
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

TEST(Convert, DamagedVocabularyIsRefused) {
  const TemporaryFolder folder;
  WriteFile(folder / "in.tsv", CriteoText("1", "1", "aa"));
  const std::string shards = " --shards=1 --out=" + folder.path() + " " + (folder / "in.tsv");
  ASSERT_EQ(Convert("--vocabulary_out=" + (folder / "v.tsv") + shards).status, 0);
  std::string text = ReadFile(folder / "v.tsv");
  text.replace(text.find("000000aa"), 8, "000000ab");
  WriteFile(folder / "v.tsv", text);
  const ProgramRun run = Convert("--vocabulary=" + (folder / "v.tsv") + shards);
  EXPECT_EQ(run.status, 1);
  EXPECT_TRUE(Contains(run.err, "# crc32c")) << run.err;
}

std::string BigEndian(std::initializer_list<uint32_t> numbers) {
  std::string bytes;
  for (const uint32_t n : numbers) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(n >> shift & 0xff);
  }
  return bytes;
}

TEST(Convert, MnistPairsBecomeImageRecordsInEitherOrder) {
  const TemporaryFolder folder;
  WriteFile(folder / "images", BigEndian({0x803, 2, 2, 3}) + "abcdefghijkl");
  WriteFile(folder / "labels", BigEndian({0x801, 2}) + std::string("\x07\x00", 2));
  for (const std::string files : {"images labels", "labels images"}) {
    const ProgramRun run =
        RunShell("cd " + folder.path() +
                 " && " MILLRACE_BIN_DIR "/millrace-records convert --shards=2 --out=out " + files);
    ASSERT_EQ(run.status, 0) << run.err;
    const Record size = {{"height", "2 "}, {"width", "3 "}, {"depth", "1 "}};
    Record first = size, second = size;
    first.insert({{"image_raw", "abcdef"}, {"label", "7 "}});
    second.insert({{"image_raw", "ghijkl"}, {"label", "0 "}});
    EXPECT_EQ(ReadShards(folder / "out/train", 2), (std::vector<Record>{first, second}));
  }
}

TEST(Convert, MnistSizesAndMagicAreChecked) {
  const TemporaryFolder folder;
  const std::string images = BigEndian({0x803, 2, 2, 3}) + "abcdefghijkl";
  const std::string labels = BigEndian({0x801, 2}) + "12";
  const auto error = [&](const std::string& image_bytes, const std::string& label_bytes) {
    WriteFile(folder / "images", image_bytes);
    WriteFile(folder / "labels", label_bytes);
    const ProgramRun run = Convert("--format=mnist --out=" + (folder / "out") + " " +
                                   (folder / "images") + " " + (folder / "labels"));
    EXPECT_NE(run.status, 0);
    EXPECT_TRUE(FilesIn(folder / "out").empty());
    return run.err;
  };
  EXPECT_TRUE(Contains(error(images.substr(0, 27), labels),
                       "expected 28 bytes as its header says, found 27"));
  EXPECT_TRUE(Contains(error(images + "x", labels), "found 29"));
  EXPECT_TRUE(Contains(error(images, BigEndian({0x801, 3}) + "123"), "expected 2 labels"));
  EXPECT_TRUE(Contains(error(images, images), "two of images"));
  EXPECT_TRUE(Contains(error("PK", labels), "found the end of the file"));
  EXPECT_TRUE(Contains(error(BigEndian({0x802, 1}), labels), "found 0x00000802"));
  EXPECT_TRUE(Contains(error(BigEndian({0x803, 2}), labels), "bytes of dimensions"));
  EXPECT_TRUE(Contains(error(BigEndian({0x803, 1, 0xffffffff, 0xffffffff}), labels),
                       "expected images of 1 to"));
}

TEST(Convert, ShortMnistFileGivesWhatItHasWhenSkipping) {
  const TemporaryFolder folder;
  WriteFile(folder / "images", BigEndian({0x803, 3, 1, 1}) + "a");
  WriteFile(folder / "labels", BigEndian({0x801, 3}) + "123");
  const ProgramRun run = Convert("--on_corrupt=skip --shards=1 --out=" + folder.path() + " " +
                                 (folder / "images") + " " + (folder / "labels"));
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(Contains(run.out, "3 in, 1 out, 2 skipped")) << run.out;
}

std::string PngOf(uint32_t width, uint32_t height) {
  return "\x89PNG\r\n\x1a\n" + BigEndian({13}) + "IHDR" + BigEndian({width, height}) + "rest";
}

std::string JpegOf(uint16_t width, uint16_t height) {
  std::string bytes("\xff\xd8\xff\xe0\x00\x04xx\xff\xff\xc2\x00\x0b\x08", 14);
  for (const int n : {height, width}) bytes += {static_cast<char>(n >> 8), static_cast<char>(n)};
  return bytes + "rest";
}

TEST(ImageHeader, SizesAreReadFromPngAndJpeg) {
  const io::Result<ImageHeader> png = ReadImageHeader(PngOf(300, 7));
  ASSERT_TRUE(png.ok()) << png.status().message();
  EXPECT_STREQ(png->format, "png");
  EXPECT_EQ(png->width, 300u);
  EXPECT_EQ(png->height, 7u);
  const io::Result<ImageHeader> jpeg = ReadImageHeader(JpegOf(640, 480));
  ASSERT_TRUE(jpeg.ok()) << jpeg.status().message();
  EXPECT_STREQ(jpeg->format, "jpeg");
  EXPECT_EQ(jpeg->width, 640u);
  EXPECT_EQ(jpeg->height, 480u);
}

TEST(ImageHeader, EveryTruncationIsAnError) {
  for (const std::string& image : {PngOf(1, 2).substr(0, 24), JpegOf(1, 2).substr(0, 18)}) {
    EXPECT_TRUE(ReadImageHeader(image).ok());
    for (size_t size = 0; size < image.size(); ++size) {
      const std::string cut = image.substr(0, size);
      EXPECT_FALSE(ReadImageHeader(cut).ok()) << size;
    }
  }
}

TEST(Convert, ImageFoldersBecomeLabelledRecords) {
  const TemporaryFolder folder;
  for (const char* name : {"in", "in/dog", "in/ant", "in/.hidden"})
    fs::create_directory(folder / name);
  WriteFile(folder / "in/dog/2.png", JpegOf(5, 6));  // the content decides, not the name
  WriteFile(folder / "in/dog/1.jpg", JpegOf(3, 4));
  WriteFile(folder / "in/ant/x.png", PngOf(1, 2));
  WriteFile(folder / "in/ant/.keep", "");
  const ProgramRun run = Convert("--shards=1 --out=" + (folder / "out") + " " + (folder / "in"));
  ASSERT_EQ(run.status, 0) << run.err;
  const std::vector<Record> records = ReadShards(folder / "out/train", 1);
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0], (Record{{"image/class/label", "0 "},
                                {"image/class/text", "ant"},
                                {"image/encoded", PngOf(1, 2)},
                                {"image/filename", "x.png"},
                                {"image/format", "png"},
                                {"image/height", "2 "},
                                {"image/width", "1 "}}));
  EXPECT_EQ(records[1].at("image/filename"), "1.jpg");
  EXPECT_EQ(records[2].at("image/format"), "jpeg");
  EXPECT_EQ(records[2].at("image/class/label"), "1 ");
  EXPECT_EQ(ReadFile(folder / "out/labels.txt"), "ant\ndog\n");
}

TEST(Convert, FilesThatAreNoImagesFailOrAreSkipped) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "in/cat/deeper");
  WriteFile(folder / "in/cat/a.png", PngOf(1, 2));
  WriteFile(folder / "in/cat/notes.txt", "hello");
  WriteFile(folder / "in/cat/empty.png", "");
  WriteFile(folder / "in/readme", "hello");
  const std::string rest = "--shards=1 --out=" + (folder / "out") + " " + (folder / "in");
  const ProgramRun failed = Convert(rest);
  EXPECT_EQ(failed.status, 1);
  EXPECT_TRUE(FilesIn(folder / "out").empty());
  const ProgramRun run = Convert("--on_corrupt=skip " + rest);
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(Contains(run.out, "5 in, 1 out, 4 skipped")) << run.out;
}

TEST(Convert, LabelsOfAnotherDataSetAreNotOverwritten) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "in/cat");
  WriteFile(folder / "in/cat/a.png", PngOf(1, 2));
  WriteFile(folder / "labels.txt", "ant\ncat\n");
  const ProgramRun run = Convert("--out=" + folder.path() + " " + (folder / "in"));
  EXPECT_EQ(run.status, 2);
  EXPECT_TRUE(Contains(run.err, "has other classes")) << run.err;
  EXPECT_EQ(ReadFile(folder / "labels.txt"), "ant\ncat\n");
}

TEST(Convert, ShardsOfAnotherNumberAreNotMixedWith) {
  const TemporaryFolder folder;
  WriteFile(folder / "in", "1 1:1\n");
  const std::string rest = " --out=" + folder.path() + " " + (folder / "in");
  ASSERT_EQ(Convert("--shards=2" + rest).status, 0);
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
      {folder / "rows", "no --out"},
      {out, "no input"},
      {"--hash_bits=4" + rows, "--hash_bits is for vw, criteo; the input is libsvm"},
      {"--vocabulary=v" + rows, "--vocabulary is for criteo"},
      {clicks, "found none"},
      {"--hash_bits=4 --vocabulary=v" + clicks, "found several"},
      {"--hash_bits=4 --min_count=2" + clicks, "--min_count needs --vocabulary_out"},
      {"--hash_bits=65" + clicks, "expected 0 to 64"},
      {"--format=csv" + rows, "expected auto, libsvm, vw, criteo, mnist or images"},
      {"--index_base=2" + rows, "expected 0 or 1"},
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

TEST(ConvertShared, EveryTextDataSetConvertsOrSaysWhyNot) {
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
  for (const auto& [file, said] : files) {
    const ProgramRun run = Convert("--out=" + folder.path() + " " + kShared + "/" + file);
    EXPECT_TRUE(Contains(run.out + run.err, said)) << file << "\n" << run.out << run.err;
  }
  const ProgramRun run = Convert("--hash_bits=20 --out=" + folder.path() + " " + kShared +
                                 "/criteo/day_11_first_3000.tsv");
  EXPECT_TRUE(Contains(run.out, "3,000 out")) << run.out << run.err;
  EXPECT_TRUE(Contains(run.out, "92, 3.07 %")) << run.out;
}

TEST(ConvertShared, ImagesOfAllKindsAreSized) {
  SKIP_WITHOUT_SHARED_DATA();
  const TemporaryFolder folder;
  fs::create_directory(folder / "in");
  fs::create_directory_symlink(fs::absolute(std::string(kShared) + "/images"), folder / "in/all");
  const ProgramRun run = Convert("--shards=1 --out=" + (folder / "out") + " " + (folder / "in"));
  ASSERT_EQ(run.status, 0) << run.err;
  std::map<std::string, std::string> sizes;
  for (const Record& record : ReadShards(folder / "out/train", 1)) {
    sizes[record.at("image/filename")] = record.at("image/width") + record.at("image/height");
  }
  EXPECT_EQ(sizes.size(), 14u);
  EXPECT_EQ(sizes["lena_rgba.png"], "51 26 ");
  EXPECT_EQ(sizes["grace_hopper.jpg"], "517 606 ");
  EXPECT_EQ(sizes["jpeg_merge_test1_cmyk.jpg"], "128 256 ");
  EXPECT_EQ(sizes["corrupt34_2.jpg"], "2544 3300 ");
}

}  // namespace
}  // namespace millrace::tools
