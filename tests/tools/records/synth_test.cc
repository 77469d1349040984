// SPDX-License-Identifier: Apache-2.0
// millrace-records synth as a user runs it; libprotobuf decodes its files.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "io/base/crc32c.h"
#include "io/record/record_reader.h"
#include "tests/proto/example.pb.h"
#include "tests/support/program.h"
#include "tests/support/test_files.h"

namespace millrace::records {
namespace {

using test::ProgramRun;
using test::RunProgram;
using test::RunShell;

namespace fs = std::filesystem;
using test::ReadFile;
using test::TemporaryFolder;

struct Row {
  int64_t label;
  std::vector<int64_t> keys;
  std::vector<float> values;
};

template <typename List>
auto Values(const List& list) {
  return std::vector<std::decay_t<decltype(list.value(0))>>(list.value().begin(),
                                                            list.value().end());
}

std::vector<Row> RowsOf(const std::string& path) {
  std::vector<Row> rows;
  auto reader = io::RecordReader::Open(path);
  EXPECT_TRUE(reader.ok()) << reader.status().message();
  io::RecordView record;
  for (;;) {
    const Result<bool> more = reader->Next(record);
    EXPECT_TRUE(more.ok()) << more.status().message();
    if (!more.ok() || !*more) return rows;
    tensorflow::Example example;
    EXPECT_TRUE(example.ParseFromString(std::string(record.bytes)));
    const auto& features = example.features().feature();
    rows.push_back({features.at("label").int64_list().value(0),
                    Values(features.at("index").int64_list()),
                    {}});
    if (features.contains("value")) rows.back().values = Values(features.at("value").float_list());
  }
}

ProgramRun Synth(const std::string& flags) {
  return RunProgram("millrace-records", "synth " + flags);
}

std::string SmallFlags(const std::string& out) {
  return "--rows=3000 --test_rows=1001 --shards=3 --test_shards=2 --num_features=50000 --out=" +
         out + " ";
}

// The number behind "name": in JSON text.
double JsonNumber(const std::string& json, const std::string& name) {
  const size_t at = json.find("\"" + name + "\": ");
  EXPECT_NE(at, std::string::npos) << name;
  return at == std::string::npos ? 0 : std::strtod(json.c_str() + at + name.size() + 4, nullptr);
}

std::vector<uint64_t> JsonList(const std::string& json, const std::string& name) {
  std::vector<uint64_t> numbers;
  const char* p = json.c_str() + json.find("\"" + name + "\": [") + name.size() + 5;
  while (*p != ']') {
    char* end = nullptr;
    numbers.push_back(std::strtoull(p, &end, 10));
    p = end + (*end == ',' ? 1 : 0);
  }
  return numbers;
}

std::map<std::string, std::string> FilesIn(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    files[entry.path().filename().string()] = ReadFile(entry.path().string());
  }
  return files;
}

TEST(Synth, BytesDependOnlyOnTheSeed) {
  const TemporaryFolder folder;
  ASSERT_EQ(Synth(SmallFlags(folder / "one") + "--threads=1").status, 0);
  ASSERT_EQ(Synth(SmallFlags(folder / "three") + "--threads=3").status, 0);
  ASSERT_EQ(Synth(SmallFlags(folder / "other") + "--seed=2").status, 0);
  const auto one = FilesIn(folder / "one");
  EXPECT_EQ(one.size(), 3u + 2 + 1);
  EXPECT_EQ(one, FilesIn(folder / "three"));
  const auto other = FilesIn(folder / "other");
  for (const auto& [name, bytes] : one) EXPECT_NE(bytes, other.at(name)) << name;
}

TEST(Synth, ShardsOnlyCutTheRows) {
  const TemporaryFolder folder;
  ASSERT_EQ(Synth(SmallFlags(folder / "three")).status, 0);
  ASSERT_EQ(Synth(SmallFlags(folder / "one") + "--shards=1").status, 0);
  std::string joined;
  for (const auto& [name, bytes] : FilesIn(folder / "three")) {
    if (name.rfind("train", 0) == 0) joined += bytes;
  }
  EXPECT_EQ(joined, ReadFile(folder / "one/train-00000-of-00001.tfrecord"));
}

// Golden: a machine, compiler or library on which this differs would have other data than everyone
// else.
TEST(Synth, DefaultDataIsFixedBitForBit) {
  const TemporaryFolder folder;
  ASSERT_EQ(Synth("--rows=5000 --test_rows=0 --shards=1 --out=" + (folder / "d")).status, 0);
  const std::string bytes = ReadFile(folder / "d/train-00000-of-00001.tfrecord");
  EXPECT_EQ(Crc32c(bytes.data(), bytes.size()), 0x38747af6u);
  const std::vector<Row> rows = RowsOf(folder / "d/train-00000-of-00001.tfrecord");
  ASSERT_EQ(rows.size(), 5000u);
  EXPECT_EQ(rows[0].label, 0);
  EXPECT_EQ(rows[0].keys,
            (std::vector<int64_t>{
                15,       50,       130,      211,      286,      366,      419,      455,
                478,      545,      551,      591,      612,      1097,     2379,     6482421,
                11766230, 12336314, 12336589, 12343975, 12349393, 12349764, 12381580, 12444346,
                19038845, 20800911, 20803234, 20816431, 21324123, 26279441, 26283751, 26286961,
                26287277, 30082688, 33333699, 33333715, 33532969, 33619952, 33710747}));
}

TEST(Synth, KeysAreInTheirFieldsAndCardinalitiesSum) {
  const TemporaryFolder folder;
  ASSERT_EQ(Synth("--rows=2000 --test_rows=10 --shards=1 --out=" + (folder / "d")).status, 0);
  const std::vector<uint64_t> sizes = JsonList(ReadFile(folder / "d/synth.json"), "cardinalities");
  ASSERT_EQ(sizes.size(), 39u);
  std::vector<int64_t> begins = {0};
  for (const uint64_t size : sizes) begins.push_back(begins.back() + static_cast<int64_t>(size));
  EXPECT_EQ(begins.back(), 33'762'578);
  for (const Row& row : RowsOf(folder / "d/train-00000-of-00001.tfrecord")) {
    ASSERT_EQ(row.keys.size(), 39u);
    ASSERT_EQ(row.values, std::vector<float>(39, 1.0f));
    for (size_t f = 0; f < 39; ++f) {
      ASSERT_GE(row.keys[f], begins[f]);
      ASSERT_LT(row.keys[f], begins[f + 1]);
    }
  }
}

TEST(Synth, JsonMatchesTheTestPart) {
  const TemporaryFolder folder;
  ASSERT_EQ(Synth("--rows=100 --test_rows=60000 --shards=1 --out=" + (folder / "d")).status, 0);
  int64_t positives = 0;
  for (const Row& row : RowsOf(folder / "d/test-00000-of-00001.tfrecord")) positives += row.label;
  const double share = static_cast<double>(positives) / 60000;
  EXPECT_NEAR(share, 0.25, 0.015);
  std::string json = ReadFile(folder / "d/synth.json");
  json = json.substr(json.find("\"test\": "));
  EXPECT_NEAR(JsonNumber(json, "positives"), share, 1e-6);
  const double base = -share * std::log(share) - (1 - share) * std::log(1 - share);
  EXPECT_NEAR(JsonNumber(json, "base_logloss"), base, 1e-6);
  EXPECT_NEAR(JsonNumber(json, "bayes_logloss"), 0.444, 0.01);
  EXPECT_NEAR(JsonNumber(json, "bayes_auc"), 0.803, 0.01);
  EXPECT_NEAR(JsonNumber(json, "bayes_normalized_entropy"),
              JsonNumber(json, "bayes_logloss") / base, 1e-6);
}

TEST(Synth, InteractionsKeepTheKeysAndStateTheLinearFloor) {
  const TemporaryFolder folder;
  const auto make = [&](const char* name, const std::string& flags) {
    const ProgramRun run = Synth(flags + " --rows=500 --test_rows=30000 --shards=1 " +
                                 "--num_features=50000 --out=" + (folder / name));
    EXPECT_EQ(run.status, 0) << run.err;
    return run.out;
  };
  EXPECT_EQ(make("linear", "").find("without the interactions"), std::string::npos);
  const std::string out = make("fm", "--interactions=4 --threads=1");
  EXPECT_NE(out.find("best possible without the interactions: logloss 0.5"), std::string::npos);
  make("fm3", "--interactions=4 --threads=3 --test_shards=1");
  make("ffm", "--interactions=4 --field_factors");
  EXPECT_EQ(FilesIn(folder / "fm"), FilesIn(folder / "fm3"));
  const std::string json = ReadFile(folder / "fm/synth.json");
  EXPECT_NEAR(JsonNumber(json, "bayes_logloss"), 0.444, 0.015);
  EXPECT_GT(JsonNumber(json, "linear_logloss"), JsonNumber(json, "bayes_logloss") + 0.03);
  EXPECT_LT(JsonNumber(json, "linear_auc"), JsonNumber(json, "bayes_auc") - 0.02);
  EXPECT_NE(json.find("\"interactions\": 4,\n  \"field_factors\": false"), std::string::npos);
  EXPECT_EQ(ReadFile(folder / "linear/synth.json").find("interactions"), std::string::npos);
  const auto plain = RowsOf(folder / "linear/train-00000-of-00001.tfrecord");
  for (const char* name : {"fm", "ffm"}) {
    const auto rows = RowsOf(folder / (std::string(name) + "/train-00000-of-00001.tfrecord"));
    size_t other_labels = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      ASSERT_EQ(rows[i].keys, plain[i].keys);
      other_labels += rows[i].label != plain[i].label ? 1 : 0;
    }
    EXPECT_GT(other_labels, 50u);
  }
  EXPECT_NE(ReadFile(folder / "fm/train-00000-of-00001.tfrecord"),
            ReadFile(folder / "ffm/train-00000-of-00001.tfrecord"));
}

TEST(Synth, SmallestModelsWork) {
  const TemporaryFolder folder;
  for (const char* flags : {"--num_features=39", "--num_features=1 --fields=1",
                            "--num_features=1000", "--num_features=200 --fields=100", "--zipf=0"}) {
    SCOPED_TRACE(flags);
    const ProgramRun run = Synth(std::string("--rows=10 --test_rows=5 --shards=1 --overwrite ") +
                                 flags + " --out=" + (folder / "d"));
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(RowsOf(folder / "d/train-00000-of-00001.tfrecord").size(), 10u);
  }
}

TEST(Synth, ValuesMayBeLeftOut) {
  const TemporaryFolder folder;
  ASSERT_EQ(Synth(SmallFlags(folder / "d") + "--novalues --compression=zstd").status, 0);
  const std::vector<Row> rows = RowsOf(folder / "d/train-00001-of-00003.tfrecord.zst");
  EXPECT_EQ(rows.size(), 1000u);
  EXPECT_TRUE(rows[0].values.empty());
}

TEST(Synth, ShardsOfAnotherCountAreRefused) {
  const TemporaryFolder folder;
  ASSERT_EQ(Synth(SmallFlags(folder / "d")).status, 0);
  const ProgramRun run = Synth(SmallFlags(folder / "d") + "--shards=4");
  EXPECT_EQ(run.status, 1);
  EXPECT_NE(run.err.find("already holds train-"), std::string::npos) << run.err;
}

TEST(Synth, ExistingFilesAreReplacedOnlyWithOverwrite) {
  const TemporaryFolder folder;
  ASSERT_EQ(Synth(SmallFlags(folder / "d")).status, 0);
  const std::string old = ReadFile(folder / "d/train-00000-of-00003.tfrecord");
  const std::string other = SmallFlags(folder / "d") + "--seed=5 ";
  const ProgramRun refused = Synth(other);
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("already exists: set --overwrite"), std::string::npos) << refused.err;
  EXPECT_EQ(ReadFile(folder / "d/train-00000-of-00003.tfrecord"), old);
  EXPECT_EQ(Synth(other + "--overwrite").status, 0);
  EXPECT_NE(ReadFile(folder / "d/train-00000-of-00003.tfrecord"), old);
}

TEST(Synth, FullDiskKeepsTheOldFiles) {
  const TemporaryFolder folder;
  ASSERT_EQ(Synth(SmallFlags(folder / "d")).status, 0);
  const std::string old = ReadFile(folder / "d/train-00000-of-00003.tfrecord");
  // A file size limit of 100 blocks simulates a full disk.
  const ProgramRun run =
      RunShell("trap '' XFSZ; ulimit -f 100; " + std::string(MILLRACE_BIN_DIR) +
               "/millrace-records synth --overwrite --seed=5 " + SmallFlags(folder / "d"));
  EXPECT_EQ(run.status, 1);
  EXPECT_NE(run.err.find("cannot write " + (folder / "d")), std::string::npos) << run.err;
  EXPECT_NE(run.err.find("File too large"), std::string::npos) << run.err;
  EXPECT_EQ(ReadFile(folder / "d/train-00000-of-00003.tfrecord"), old);
  for (const auto& [name, bytes] : FilesIn(folder / "d"))
    EXPECT_EQ(name.find(".tmp-"), std::string::npos) << name;
}

TEST(Synth, InterruptRemovesUnfinishedFiles) {
  const TemporaryFolder folder;
  const std::string program = std::string(MILLRACE_BIN_DIR) + "/millrace-records";
  // The signal comes when files are being written.
  const ProgramRun run = RunShell(
      program + " synth --rows=2000000000 --out=" + (folder / "d") + " & until ls " +
      (folder / "d") + "/*.tmp-* >/dev/null 2>&1; do sleep 0.05; done; kill -TERM $!; wait $!");
  EXPECT_NE(run.err.find("interrupted"), std::string::npos) << run.err;
  for (const auto& [name, bytes] : FilesIn(folder / "d"))
    EXPECT_EQ(name.find(".tmp-"), std::string::npos) << name;
}

struct BadFlags {
  std::string flags;
  std::string message;
};

TEST(Synth, ImpossibleFlagsAreUsageErrors) {
  const TemporaryFolder folder;
  const std::string out = " --out=" + (folder / "d");
  const BadFlags cases[] = {
      {"", "--out is missing"},
      {"--rows=0" + out, "--rows=0: expected at least 1"},
      {"--rows=ten" + out, "flag --rows has the value 'ten'; expected a whole number, 0 or more"},
      {"--row=10" + out, "unknown flag --row; did you mean --rows?"},
      {"--num_features=38" + out,
       "--num_features=38: expected at least one for each of the 39 fields"},
      {"--fields=0" + out, "--fields=0: expected 1 to"},
      {"--rows=5" + out, "--shards=8: expected 1 to"},
      {"--shards=0" + out, "--shards=0: expected 1 to"},
      {"--zipf=nan" + out, "--zipf=nan: expected 0 to 5"},
      {"--compression=lzma" + out, "lzma"},
      {"--compression=gzip --level=12" + out, "--level=12"},
      {"stray" + out, "unexpected argument 'stray'"},
  };
  for (const auto& [flags, message] : cases) {
    SCOPED_TRACE(flags);
    const ProgramRun run = Synth(flags);
    EXPECT_EQ(run.status, 2);
    EXPECT_EQ(run.err.rfind("millrace-records: ", 0), 0u) << run.err;
    EXPECT_NE(run.err.find(message), std::string::npos) << run.err;
    EXPECT_FALSE(fs::exists(folder / "d"));
  }
}

TEST(Synth, UnwritableFolderIsNamed) {
  const ProgramRun run = Synth("--rows=10 --shards=1 --out=/proc/no/such");
  EXPECT_EQ(run.status, 1);
  EXPECT_NE(run.err.find("cannot create folder /proc/no/such"), std::string::npos) << run.err;
}

TEST(Program, WithoutArgumentsPrintsHelp) {
  const ProgramRun run = RunProgram("millrace-records", "");
  EXPECT_EQ(run.status, 2);
  for (const char* command : {"synth", "convert", "cat", "stat", "verify"}) {
    EXPECT_NE(run.err.find(std::string("\n  ") + command), std::string::npos) << command;
  }
  EXPECT_EQ(RunProgram("millrace-records", "--help").status, 0);
  EXPECT_EQ(RunProgram("millrace-records", "--help").out, run.err);
}

TEST(Program, UnknownCommandSuggestsTheNearest) {
  const ProgramRun run = RunProgram("millrace-records", "sinth --rows=3");
  EXPECT_EQ(run.status, 2);
  EXPECT_EQ(run.err, "millrace-records: unknown command 'sinth'; did you mean synth?\n");
}

TEST(Program, VersionIsPrintedEverywhere) {
  const std::string version = RunProgram("millrace-records", "--version").out;
  EXPECT_EQ(version.rfind("millrace-records ", 0), 0u);
  EXPECT_EQ(RunProgram("millrace-records", "synth --version").out, version);
}

}  // namespace
}  // namespace millrace::records
