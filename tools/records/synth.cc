// SPDX-License-Identifier: Apache-2.0
// millrace-records synth: flags, checks of the output folder, synth.json and the summary.

#include <gflags/gflags.h>

#include <cinttypes>
#include <cstdio>
#include <filesystem>

#include "io/base/printable.h"
#include "io/record/output_file.h"
#include "profiler/clock.h"
#include "tools/common/program.h"
#include "tools/common/progress.h"
#include "tools/convert/shard_writer.h"
#include "tools/records/commands.h"
#include "tools/synth/synth_model.h"
#include "tools/synth/synth_writer.h"

using millrace::synth::SynthFiles;
using millrace::synth::SynthOptions;

DEFINE_uint64(rows, SynthFiles{}.rows, "training rows");
DEFINE_uint64(test_rows, SynthFiles{}.test_rows, "test rows");
DEFINE_uint64(test_shards, SynthFiles{}.test_shards, "number of test files");
DEFINE_uint64(num_features, SynthOptions{}.num_features, "distinct keys, over all fields");
DEFINE_uint64(fields, SynthOptions{}.fields, "number of fields, and of keys in a row");
DEFINE_double(zipf, SynthOptions{}.zipf,
              "exponent of the Zipf distribution of values within a field");
DEFINE_double(positives, SynthOptions{}.positives, "share of rows with label 1");
DEFINE_double(bayes_logloss, SynthOptions{}.bayes_logloss,
              "logloss of a predictor that knows the hidden model; lower means more signal");
DEFINE_uint64(
    interactions, SynthOptions{}.interactions,
    "rank of the hidden model's interactions between 8 of the fields, 1 to 64; 0: none, it "
    "is linear");
DEFINE_bool(field_factors, SynthOptions{}.field_factors,
            "a value's factors in the interactions depend on the other field, as in a field-aware "
            "factorization machine");
DEFINE_bool(values, SynthFiles{}.values, "write the values (all 1.0) in addition to the keys");

namespace millrace::records {
namespace {

using convert::CheckNoneExist;
using synth::BayesScore;
using synth::SynthModel;
using synth::SynthResult;
using synth::WriteSynth;
using tools::Args;
using tools::BytesText;
using tools::CatchInterrupts;
using tools::CommandSpec;
using tools::DurationText;
using tools::Folder;
using tools::OneOf;
using tools::WithCommas;

namespace fs = std::filesystem;

constexpr uint64_t kMaxShards = 99'999;  // the largest number that fits into the name of a shard

SynthOptions ModelFromFlags() {
  return {.num_features = FLAGS_num_features,
          .fields = FLAGS_fields,
          .zipf = FLAGS_zipf,
          .seed = FLAGS_seed,
          .positives = FLAGS_positives,
          .bayes_logloss = FLAGS_bayes_logloss,
          .interactions = FLAGS_interactions,
          .field_factors = FLAGS_field_factors};
}

Result<SynthFiles> FilesFromFlags() {
  ASSIGN_OR_RETURN(const io::WriterOptions writer, WriterOptionsFromFlags());
  ASSIGN_OR_RETURN(const size_t threads, ThreadsFromFlags());
  return SynthFiles{.folder = FLAGS_out,
                    .rows = FLAGS_rows,
                    .test_rows = FLAGS_test_rows,
                    .shards = FLAGS_shards,
                    .test_shards = FLAGS_test_shards,
                    .values = FLAGS_values,
                    .threads = threads,
                    .writer = writer,
                    .names = FeatureNamesFromFlags()};
}

Status CheckShards(const char* flag, uint64_t shards, uint64_t rows) {
  if (shards >= 1 && shards <= std::min(kMaxShards, rows)) return {};
  return Invalid("--" + std::string(flag) + "=" + std::to_string(shards) +
                 ": expected 1 to 99999, and no more than there are rows (" + std::to_string(rows) +
                 ")");
}

Status Check(const SynthFiles& files) {
  constexpr uint64_t kMaxRows = uint64_t{1} << 48;
  if (files.folder.empty()) return Invalid("--out is missing: expected the folder to write to");
  if (files.rows == 0) return Invalid("--rows=0: expected at least 1");
  if (files.rows > kMaxRows || files.test_rows > kMaxRows) {
    return Invalid("--rows and --test_rows: expected at most 2^48");
  }
  RETURN_IF_ERROR(CheckShards("shards", files.shards, files.rows));
  if (files.test_rows == 0) return {};
  return CheckShards("test_shards", files.test_shards, files.test_rows);
}

// Checks that neither the shards of one part nor synth.json exist.
Status CheckTargets(const SynthFiles& files, std::string_view base, uint64_t count) {
  std::vector<std::string> targets;
  for (uint64_t i = 0; i < count; ++i) {
    targets.push_back(files.folder + "/" + io::ShardName(base, i, count, files.writer.compression));
  }
  targets.push_back(files.folder + "/synth.json");
  return CheckNoneExist(targets);
}

// A pattern like train-* would read shards of an earlier run with another number of shards together
// with the new ones.
Status CheckLeftovers(const SynthFiles& files, std::string_view base, uint64_t count) {
  const std::string end =
      io::ShardName("", 0, count, files.writer.compression).substr(6);  // "-of-..."
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(files.folder, error)) {
    const std::string name = entry.path().filename().string();
    const bool is_shard = name.rfind(std::string(base) + "-", 0) == 0 &&
                          name.find("-of-") != std::string::npos &&
                          name.find(".tmp-") == std::string::npos;
    if (!is_shard || (count > 0 && name.size() > end.size() && name.ends_with(end))) continue;
    return Status(Code::kIo,
                  "--out=" + files.folder + " already holds " + name +
                      ", which these files would not replace; remove it or name another folder");
  }
  return error ? IoError("cannot read folder " + files.folder, error.value()) : Status();
}

Status PrepareFolder(const SynthFiles& files) {
  std::error_code error;
  fs::create_directories(files.folder, error);
  if (error) return IoError("cannot create folder " + files.folder, error.value());
  const uint64_t test_shards = files.test_rows > 0 ? files.test_shards : 0;
  RETURN_IF_ERROR(CheckLeftovers(files, "train", files.shards));
  RETURN_IF_ERROR(CheckLeftovers(files, "test", test_shards));
  if (FLAGS_overwrite) return {};
  RETURN_IF_ERROR(CheckTargets(files, "train", files.shards));
  return CheckTargets(files, "test", test_shards);
}

std::string Format(const char* format, double number) {
  char text[64];
  std::snprintf(text, sizeof text, format, number);
  return text;
}

std::string Number(double number) { return Format("%.9g", number); }

double Share(uint64_t part, uint64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

std::string List(const std::vector<uint64_t>& numbers) {
  std::string text;
  for (const uint64_t number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return "[" + text + "]";
}

std::string TestJson(SynthResult& result) {
  BayesScore &test = result.test, &linear = result.test_linear;
  const double logloss = test.LogLoss(), base = test.BaseLogLoss();
  return "{\"rows\": " + std::to_string(test.rows()) +
         ", \"positives\": " + Number(Share(test.positives(), test.rows())) +
         ", \"bayes_logloss\": " + Number(logloss) + ", \"bayes_auc\": " + Number(test.Auc()) +
         (linear.rows() == 0 ? ""
                             : ", \"linear_logloss\": " + Number(linear.LogLoss()) +
                                   ", \"linear_auc\": " + Number(linear.Auc())) +
         ", \"base_logloss\": " + Number(base) +
         ", \"bayes_normalized_entropy\": " + Number(base > 0 ? logloss / base : 0) + "}";
}

std::string Json(const SynthOptions& options, const SynthFiles& files, const SynthModel& model,
                 SynthResult& result) {
  std::string text = "{\n";
  const auto add = [&](const char* name, const std::string& value) {
    text += std::string(text.size() > 2 ? ",\n" : "") + "  \"" + name + "\": " + value;
  };
  add("generator", "\"millrace-records synth " MILLRACE_VERSION "\"");
  add("seed", std::to_string(options.seed));
  add("num_features", std::to_string(options.num_features));
  add("fields", std::to_string(options.fields));
  add("cardinalities", List(model.cardinalities()));
  add("zipf", Number(options.zipf));
  if (options.interactions > 0) {
    add("interactions", std::to_string(options.interactions));
    add("field_factors", options.field_factors ? "true" : "false");
    add("strength", Number(model.strength()));
  }
  add("values", files.values ? "true" : "false");
  add("compression", std::string("\"") + io::CompressionName(files.writer.compression) + "\"");
  add("shards", std::to_string(files.shards));
  add("test_shards", std::to_string(files.test_rows > 0 ? files.test_shards : 0));
  add("bias", Number(model.bias()));
  add("scale", Number(model.scale()));
  add("train", "{\"rows\": " + std::to_string(files.rows) +
                   ", \"positives\": " + Number(Share(result.train_positives, files.rows)) + "}");
  if (files.test_rows > 0) add("test", TestJson(result));
  return text + "\n}\n";
}

Status WriteFile(const std::string& path, const std::string& content) {
  ASSIGN_OR_RETURN(auto file, io::OutputFile::Create(path, io::AtPath::kReplace));
  RETURN_IF_ERROR(file.Write(content));
  return file.Commit();
}

std::string FilesText(const std::vector<std::string>& files) {
  if (files.size() == 1) return files[0];
  return files.front() + " ... (" + std::to_string(files.size()) + " files)";
}

std::string Summary(const SynthFiles& files, SynthResult& result, double seconds) {
  const uint64_t rows = files.rows + files.test_rows;
  std::string text = "train  " + WithCommas(files.rows) + " rows, " +
                     Format("%.2f", 100 * Share(result.train_positives, files.rows)) +
                     " % positive: " + FilesText(result.train_files) + "\n";
  if (files.test_rows > 0) {
    BayesScore& test = result.test;
    text += "test   " + WithCommas(files.test_rows) + " rows, " +
            Format("%.2f", 100 * Share(test.positives(), test.rows())) +
            " % positive: " + FilesText(result.test_files) +
            "\nbest possible on the test part: logloss " + Format("%.4f", test.LogLoss()) +
            ", AUC " + Format("%.4f", test.Auc()) +
            Format(" (base rate only: logloss %.4f)", test.BaseLogLoss()) + "\n";
    if (BayesScore& linear = result.test_linear; linear.rows() > 0) {
      text += "best possible without the interactions: logloss " +
              Format("%.4f", linear.LogLoss()) + ", AUC " + Format("%.4f", linear.Auc()) + "\n";
    }
  }
  return text + BytesText(result.bytes) + " of records in " + DurationText(seconds) + ": " +
         WithCommas(static_cast<uint64_t>(static_cast<double>(rows) / seconds)) + " rows/s with " +
         std::to_string(files.threads) + (files.threads == 1 ? " thread\n" : " threads\n");
}

Status Synthesize(const SynthOptions& options, const SynthFiles& files) {
  const double start_s = NowSeconds();
  RETURN_IF_ERROR(options.Validate());
  RETURN_IF_ERROR(Check(files));
  RETURN_IF_ERROR(PrepareFolder(files));
  // synth.json is written last: a folder with synth.json is complete.
  const std::string json_path = files.folder + "/synth.json";
  std::error_code ignored;
  fs::remove(json_path, ignored);
  const SynthModel model(options);
  CatchInterrupts();  // from here on there are files to remove
  ASSIGN_OR_RETURN(SynthResult result, WriteSynth(model, files));
  RETURN_IF_ERROR(WriteFile(json_path, Json(options, files, model, result)));
  std::fputs(PrintableLines(Summary(files, result, NowSeconds() - start_s)).c_str(), stdout);
  return {};
}

}  // namespace

const CommandSpec& SynthSpec() {
  static const CommandSpec spec = {
      .name = "millrace-records synth",
      .job = "generates Criteo-like training and test data from a hidden model",
      .groups = {{"Files",
                  {"out", "rows", "test_rows", "shards", "test_shards", "overwrite", "compression",
                   "level", "values"},
                  {{"out", Folder()}, {"compression", OneOf({"none", "gzip", "zlib", "zstd"})}}},
                 {"Data",
                  {"num_features", "fields", "zipf", "positives", "bayes_logloss", "interactions",
                   "field_factors", "seed"}},
                 {"Names in the records", {"label_feature", "index_feature", "value_feature"}},
                 {"Work", {"threads"}}},
      .always = {"out", "rows", "test_rows", "shards", "overwrite", "compression", "values",
                 "num_features", "fields", "zipf", "positives", "bayes_logloss", "interactions",
                 "seed", "label_feature", "index_feature", "threads"},
      .needs = {{{"test_shards"}, {"test_rows"}},
                {{"value_feature"}, {"values"}},
                {{"field_factors"}, {"interactions"}},
                {.flags = {"level"},
                 .with = {"compression"},
                 .except = {"none"},
                 .text = "--compression=gzip, zlib or zstd"}},
      .examples = {"millrace-records synth --rows=2000000 --test_rows=200000 --out=data",
                   "millrace-records synth --rows=10000 --test_rows=1000 --num_features=1000 "
                   "--shards=1 --out=small",
                   "millrace-records synth --interactions=4 --num_features=1000000 --out=pairs"}};
  return spec;
}

int RunSynth(const Args&) {
  if (const Status flags = tools::CheckEffects(SynthSpec()); !flags.ok()) return Fail(flags);
  const Result<SynthFiles> files = FilesFromFlags();
  if (!files.ok()) return Fail(files.status());
  const Status status = Synthesize(ModelFromFlags(), *files);
  return status.ok() ? 0 : Fail(status);
}

}  // namespace millrace::records
