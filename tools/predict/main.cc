// SPDX-License-Identifier: Apache-2.0
// millrace-predict: scores records with a saved model.

#include <gflags/gflags.h>

#include <algorithm>
#include <bit>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "io/base/printable.h"
#include "io/stream/file_list.h"
#include "io/text/vw.h"
#include "tools/common/flags.h"
#include "tools/common/help.h"
#include "tools/common/program.h"
#include "tools/common/progress.h"
#include "tools/predict/commands.h"
#include "trainer/model/model.h"
#include "trainer/model/model_file.h"
#include "trainer/run/run_folder.h"
#include "trainer/run/run_info.h"

DEFINE_string(model, "", "the model: a binary or text file, a checkpoint, or a run folder");
DEFINE_string(
    format, "auto",
    "input format: tfrecord, libsvm, vw, criteo, or auto (by the file names; if they do not tell "
    "it, as in training if --model is a run folder, else tfrecord)");
DEFINE_string(output, "probability",
              "what to write for each row, one line per row in the order of the input: "
              "probability or margin");
DEFINE_string(out, "-", "output file; - is standard output");
DEFINE_bool(
    metrics, false,
    "print logloss, AUC and other metrics on standard error; without it rows need no labels");
DEFINE_uint64(top, 0, "list this many of the largest weights instead of scoring");
DEFINE_string(vocabulary, "", "with --top: the Criteo vocabulary that names the features");
DEFINE_string(
    on_corrupt, "fail",
    "what to do with a corrupt record: fail, or skip (counted and reported; no line is written)");
DEFINE_uint64(max_record_mb, millrace::io::InputOptions{}.max_record_bytes >> 20,
              "longest record or line in megabytes, at most 2048; bounds the memory of the input");
DEFINE_int32(index_base, 0, "libsvm: the first feature's number, 0 or 1");
DEFINE_int32(hash_bits, -1,
             "vw and criteo: bits of the hashed keys, 0 for 64; -1: from the size of the model");
DEFINE_bool(hash_all, millrace::io::VwOptions{}.hash_all,
            "vw: hash numeric names with their namespace like other names");
DEFINE_string(label_feature, millrace::io::FeatureNames{}.label, "name of the label feature");
DEFINE_string(index_feature, millrace::io::FeatureNames{}.index,
              "name of the feature with the keys");
DEFINE_string(value_feature, millrace::io::FeatureNames{}.value,
              "name of the feature with the values");
DEFINE_string(weight_feature, millrace::io::FeatureNames{}.weight,
              "name of the feature with the example's weight; empty: none");
DEFINE_uint64(threads, 0, "reading threads; 0: one per core");

namespace millrace::predict {
namespace {

using tools::Answer;
using tools::Args;
using tools::BytesText;
using tools::CatchInterrupts;
using tools::CommandSpec;
using tools::Counted;
using tools::Fail;
using tools::File;
using tools::OneOf;
using tools::ParsedLine;
using tools::ParseLine;
using tools::WithCommas;

constexpr char kProgram[] = "millrace-predict";

using io::InputFormat;

constexpr size_t kBatchRows = 1000;

Status CheckTopFlags(const Args& args) {
  if (!args.empty()) return Invalid("--top lists weights and reads no input: leave out " + args[0]);
  if (FLAGS_metrics) return Invalid("--top reads no input: leave out --metrics");
  return {};
}

Result<std::vector<std::string>> FilesOf(const Args& args) {
  std::vector<std::string> files;
  for (const std::string& arg : args) {
    ASSIGN_OR_RETURN(const std::vector<std::string> expanded, io::ExpandFiles(arg));
    files.insert(files.end(), expanded.begin(), expanded.end());
  }
  if (std::count(files.begin(), files.end(), "-") > 1) {
    return Invalid("standard input (-) can be read only once");
  }
  return files;
}

Result<InputFormat> FormatOf(const std::vector<std::string>& files) {
  return FLAGS_format == "auto" ? io::InputFormatFromExtensions(files)
                                : io::InputFormatFromName(FLAGS_format);
}

// The number of bits whose keys are below num_features.
Result<int> HashBits(InputFormat format, uint64_t num_features) {
  if (FLAGS_hash_bits >= 0) return FLAGS_hash_bits;
  const bool hashes = format == InputFormat::kVw || format == InputFormat::kCriteo;
  if (!hashes || num_features == 0) return 0;
  if (std::has_single_bit(num_features)) return std::countr_zero(num_features);
  return Invalid("the model has " + trainer::ShapeText(num_features) +
                 ", which is not a power of 2: "
                 "set --hash_bits to the bits that its " +
                 io::InputFormatName(format) +
                 " data was hashed with, or convert the input like the training data");
}

using Flags = std::vector<std::pair<std::string, std::string>>;

Flags FlagsAtDefault(const std::vector<std::string>& names) {
  Flags flags;
  for (const std::string& name : names) {
    const gflags::CommandLineFlagInfo info = gflags::GetCommandLineFlagInfoOrDie(name.c_str());
    if (info.is_default) flags.emplace_back(name, info.current_value);
  }
  return flags;
}

bool IsUnset(const std::string& value) {
  return value.empty() || value == "0" || value == "auto" || value == "false";
}

// Sets those of the flags `names` that the command line does not give to their values in training,
// if `model` is a run folder or inside one. Returns the flags that were set, as "--hash_bits=20
// --index_base=1 (R/run.json)"; empty: none. Flags that were unset in training (0, auto, false,
// empty) are not changed.
std::string UseRunFlags(const std::string& model, const std::vector<std::string>& names) {
  const Result<std::string> file = trainer::ModelFileOf(model);
  if (!file.ok()) return "";
  // RUN/model/model.bin, RUN/checkpoints/...
  std::error_code ignored;
  const std::filesystem::path run =
      std::filesystem::absolute(*file, ignored).parent_path().parent_path();
  std::string used;
  for (const trainer::FlagChange& flag :
       trainer::ChangedFlags(trainer::ReadRunJson(run), FlagsAtDefault(names))) {
    if (IsUnset(flag.before)) continue;
    gflags::SetCommandLineOption(flag.name.c_str(), flag.before.c_str());
    used += "--" + flag.name + "=" + flag.before + " ";
  }
  return used.empty() ? "" : used + "(" + (run / "run.json").string() + ")";
}

const CommandSpec& PredictSpec() {
  static const CommandSpec spec = {
      .name = "millrace-predict",
      .job = "scores records with a saved model, or lists its largest weights",
      .arguments = "INPUT...",
      .groups = {{"Scoring",
                  {"model", "format", "output", "out", "metrics"},
                  {{"model", File()},
                   {"format", OneOf({"auto", "tfrecord", "libsvm", "vw", "criteo"})},
                   {"output", OneOf({"probability", "margin"})},
                   {"out", File()}}},
                 {"Inspecting a model", {"top", "vocabulary"}, {{"vocabulary", File()}}},
                 {"Input",
                  {"on_corrupt", "max_record_mb", "index_base", "hash_bits", "hash_all",
                   "label_feature", "index_feature", "value_feature", "weight_feature", "threads"},
                  {{"on_corrupt", OneOf({"fail", "skip"})}}}},
      .examples = {"millrace-predict --model=runs/1 'data/test-*.tfrecord' > scores",
                   "millrace-predict --model=model.bin --metrics --out=/dev/null test.libsvm",
                   "zcat test.svm.gz | millrace-predict --model=model.bin --format=libsvm -",
                   "millrace-predict --model=model.bin --top=20 --vocabulary=vocabulary.tsv"}};
  return spec;
}

// Before any work: an error for impossible or contradictory flags.
Status CheckFlags(const Args& args) {
  if (FLAGS_model.empty()) return Invalid("no model: write --model=FILE, or --model=RUN_DIR");
  if (FLAGS_index_base != 0 && FLAGS_index_base != 1) {
    return Invalid("--index_base=" + std::to_string(FLAGS_index_base) + ": expected 0 or 1");
  }
  if (FLAGS_hash_bits < -1 || FLAGS_hash_bits > 64) {
    return Invalid("--hash_bits=" + std::to_string(FLAGS_hash_bits) + ": expected -1 to 64");
  }
  if (FLAGS_top > 0) return CheckTopFlags(args);
  if (!FLAGS_vocabulary.empty()) return Invalid("--vocabulary needs --top=N");
  if (args.empty()) {
    return Invalid("no input: name files, globs in quotes, @list, or - for standard input");
  }
  return {};
}

// Sets the input flags that the command line does not give to their values in training, if the run
// of the model is known. Returns a text that lists them; empty: none.
std::string UseTrainingFlags(const Args& args) {
  std::vector<std::string> names = {"index_base",    "hash_bits",     "hash_all",
                                    "label_feature", "index_feature", "value_feature"};
  // A file name that tells the format has precedence over the format in training.
  const Result<std::vector<std::string>> files = FilesOf(args);
  if (files.ok() && std::none_of(files->begin(), files->end(), io::HasKnownExtension)) {
    names.insert(names.begin(), "format");
  }
  return UseRunFlags(FLAGS_model, names);
}

// The input must have the keys of the model that `info` describes.
Result<ScoreOptions> ScoreOptionsFromFlags(const Args& args, const trainer::ModelInfo& info) {
  ScoreOptions options;
  io::InputOptions& input = options.input;
  ASSIGN_OR_RETURN(options.kind, ScoreKindFromName(FLAGS_output));
  ASSIGN_OR_RETURN(input.files, FilesOf(args));
  ASSIGN_OR_RETURN(input.format, FormatOf(input.files));
  ASSIGN_OR_RETURN(input.on_corrupt, io::OnCorruptFromName(FLAGS_on_corrupt));
  ASSIGN_OR_RETURN(input.max_record_bytes, tools::MaxRecordBytes(FLAGS_max_record_mb));
  ASSIGN_OR_RETURN(input.rows.hash_bits, HashBits(input.format, info.num_features));
  input.rows.names = {.label = FLAGS_label_feature,
                      .index = FLAGS_index_feature,
                      .value = FLAGS_value_feature,
                      .weight = FLAGS_weight_feature};
  input.rows.num_features = info.num_features;
  input.rows.index_base = FLAGS_index_base;
  input.rows.hash_all = FLAGS_hash_all;
  input.rows.labels = io::Labels::kOptional;
  input.batch_size = kBatchRows;
  input.compact = io::NeedsWideKeys(info.num_features);
  input.shuffle_capacity = 0;
  input.threads =
      FLAGS_threads > 0 ? FLAGS_threads : std::max<size_t>(1, std::thread::hardware_concurrency());
  options.out = FLAGS_out;
  options.metrics = FLAGS_metrics;
  return options;
}

void PrintModel(const std::string& path, const trainer::ModelInfo& info) {
  std::fprintf(stderr, "%s: %s, %s, %s, %s, %s\n", PrintableLines(path).c_str(),
               Counted(info.weights, "weight").c_str(),
               trainer::ShapeText(info.num_features).c_str(), info.rule.c_str(),
               Counted(info.steps, "step").c_str(), Counted(info.examples, "example").c_str());
}

void PrintMetrics(const trainer::BinaryMetrics& metrics) {
  std::fprintf(stderr, "examples    %s\n", WithCommas(metrics.examples).c_str());
  for (const trainer::NamedValue& metric : trainer::NamedValues(metrics)) {
    std::fprintf(stderr, "%-11s %.6f\n", std::string(metric.name).c_str(), metric.value);
  }
  if (metrics.nan_margins > 0) {
    std::fprintf(stderr, "%s: %s examples have no finite score and are in no metric\n", kProgram,
                 WithCommas(metrics.nan_margins).c_str());
  }
}

Status RunScore(const trainer::Model& model, const Args& args) {
  const std::string used = UseTrainingFlags(args);
  if (!used.empty())
    std::fprintf(stderr, "%s: as in training: %s\n", kProgram, PrintableLines(used).c_str());
  ASSIGN_OR_RETURN(const ScoreOptions options, ScoreOptionsFromFlags(args, model.info()));
  // A partly written file must be removed. Otherwise a signal ends the program at once, even if it
  // is blocked on input.
  if (options.out != "-") CatchInterrupts();
  ASSIGN_OR_RETURN(const ScoreSummary summary, Score(model, options));
  if (summary.corruption.events > 0) {
    std::fprintf(stderr, "%s: skipped %s (%s), which have no lines\n", kProgram,
                 Counted(summary.corruption.events, "corrupt region").c_str(),
                 BytesText(summary.corruption.bytes).c_str());
  }
  if (!summary.warning.empty()) {
    std::fprintf(stderr, "%s: warning: %s\n", kProgram, summary.warning.c_str());
  }
  if (options.metrics) PrintMetrics(summary.metrics);
  return {};
}

Status Run(const Args& args) {
  RETURN_IF_ERROR(CheckFlags(args));
  ASSIGN_OR_RETURN(const trainer::Model model, trainer::LoadModel(FLAGS_model));
  if (FLAGS_top == 0) return RunScore(model, args);
  PrintModel(FLAGS_model, model.info());
  return WriteTopWeights(model,
                         {.count = FLAGS_top, .vocabulary = FLAGS_vocabulary, .out = FLAGS_out});
}

int Main(const std::vector<std::string>& words) {
  const Result<ParsedLine> line = ParseLine(PredictSpec(), {}, words);
  if (!line.ok()) return Fail(kProgram, line.status());
  if (const auto status = Answer(PredictSpec(), line->action)) return *status;
  const Status status = Run(line->args);
  return status.ok() ? 0 : Fail(kProgram, status);
}

}  // namespace
}  // namespace millrace::predict

int main(int argc, char** argv) {
  // A closed pipe ("| head") ends the program without a message.
  std::signal(SIGPIPE, SIG_DFL);
  return millrace::tools::ProgramMain(millrace::predict::kProgram, millrace::predict::Main, argc,
                                      argv);
}
