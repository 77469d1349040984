// SPDX-License-Identifier: Apache-2.0
// millrace-predict: scores records with a saved model.

#include <gflags/gflags.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "io/base/printable.h"
#include "io/state/state_file.h"
#include "io/stream/file_list.h"
#include "io/text/vw.h"
#include "tools/common/flags.h"
#include "tools/common/help.h"
#include "tools/common/program.h"
#include "tools/common/progress.h"
#include "tools/common/remote_flags.h"
#include "tools/common/text_table.h"
#include "tools/predict/commands.h"
#include "tools/predict/export.h"
#include "trainer/model/model.h"
#include "trainer/model/model_file.h"
#include "trainer/run/run_folder.h"

DEFINE_string(model, "",
              "the model: a binary or text file of millrace-lr, a checkpoint of it, a net of "
              "millrace-convnet, or a run folder");
DEFINE_string(format, "auto",
              "input format: tfrecord, libsvm, libffm, vw, criteo, csv, json, table, or auto (as "
              "in training, unless the file names tell another; by the content if the model does "
              "not know it)");
DEFINE_string(duckdb, "",
              "libduckdb.so, which reads Parquet and SQL; empty: a usual place, where "
              "tools/get_duckdb.sh puts it");
DEFINE_string(output, "probability",
              "what to write for each row, one line per row in the order of the input: "
              "probability, margin, or labeled (label, weight and margin, with --metrics: what "
              "millrace-report compares); of a net: the class and its probability");
DEFINE_string(out, "-", "output file; - is standard output (not for export)");
DEFINE_bool(
    metrics, false,
    "print logloss, AUC and other metrics on standard error, and how many of the keys have a "
    "weight; without it rows need no labels");
DEFINE_string(slices, "",
              "with --metrics: fields of the feature spec, separated by commas; prints rows, "
              "positives, logloss, AUC and calibration for each value of them");
DEFINE_uint64(slice_values, millrace::predict::kDefaultSliceValues,
              "with --slices: values of each field that are shown, the most frequent ones; all "
              "others are one slice");
DEFINE_string(unknown_key, "ignore",
              "what to do with a key that has no weight in the model: ignore (it counts as a "
              "weight of 0), or error (which names file, row and key)");
DEFINE_uint64(
    explain, 0,
    "after each score, the N features with the largest part of it: weight times "
    "value, by the names of the feature spec; of an fm or ffm also interactions of two features");
DEFINE_uint64(top, 0,
              "list this many of the largest weights instead of scoring; rows may be named whose "
              "feature names are shown");
DEFINE_string(vocabulary, "", "with --top: the Criteo vocabulary that names the features");
DEFINE_string(
    on_corrupt, "fail",
    "what to do with a corrupt record: fail, or skip (counted and reported; no line is written)");
DEFINE_uint64(max_record_mb, millrace::io::InputOptions{}.max_record_bytes >> 20,
              "longest record or line in megabytes, at most 2048; bounds the memory of the input");
DEFINE_int32(
    index_base, 0,
    "libsvm, libffm: the first feature's number, 0 or 1; this and the flags below: as in training "
    "unless given, if the training data had the same format");
DEFINE_int32(hash_bits, -1,
             "vw and criteo: bits of the hashed keys, 0 for 64; -1: from the size of the model");
DEFINE_bool(vw_hash_all, millrace::io::VwOptions{}.hash_all,
            "vw: hash all names with their namespace, as vw --hash all; --novw_hash_all: a name of "
            "digits is its key, in any namespace");
DEFINE_string(label_feature, millrace::io::FeatureNames{}.label, "name of the label feature");
DEFINE_string(index_feature, millrace::io::FeatureNames{}.index,
              "name of the feature with the keys");
DEFINE_string(value_feature, millrace::io::FeatureNames{}.value,
              "name of the feature with the values");
DEFINE_string(weight_feature, millrace::io::kWeightFeature,
              "name of the feature with the example's weight, if the records have it; empty: none");
DEFINE_string(field_feature, millrace::io::FeatureNames{}.field,
              "ffm: name of the feature with the fields");
DEFINE_string(weights, "f32",
              "the type of the weights: f32 (scores of the same bits as here), or f16 or bf16 of "
              "half the size");
DEFINE_string(layout, "auto",
              "how the weights are found: dense (an array by key), hash (of the features that have "
              "a weight), or auto: hash where it is much smaller");
DEFINE_uint64(threads, 0, "threads that read and decode rows, or run a net; 0: one per core");

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
using tools::IsGiven;
using tools::OneOf;
using tools::ParsedLine;
using tools::ParseLine;
using tools::WithCommas;

constexpr char kProgram[] = "millrace-predict";

using io::InputFormat;

constexpr size_t kBatchRows = 1000;
// Resolved values of --model, see tools::CheckEffects.
constexpr char kNet[] = "a net";
constexpr char kFfm[] = "an ffm";
constexpr char kWithFeatures[] = "a model with a feature spec";

Result<std::vector<std::string>> FilesOf(const Args& args) {
  std::vector<std::string> files;
  for (const std::string& arg : args) {
    ASSIGN_OR_RETURN(const std::vector<std::string> expanded, io::ExpandFiles(arg));
    files.insert(files.end(), expanded.begin(), expanded.end());
  }
  if (std::count(files.begin(), files.end(), "-") > 1) {
    return Invalid("standard input (-) can be read only once");
  }
  RETURN_IF_ERROR(tools::CheckRemoteFlags(files));
  return files;
}

size_t Threads() {
  return FLAGS_threads > 0 ? FLAGS_threads
                           : std::max<size_t>(1, std::thread::hardware_concurrency());
}

// --format; else the format of the training data, unless the names of the files tell another; else
// what the content of the files tells.
Result<InputFormat> FormatOf(const std::vector<std::string>& files,
                             const trainer::ModelInfo& info) {
  if (FLAGS_format != "auto") return io::InputFormatFromName(FLAGS_format);
  const bool is_known = info.input && info.input->format != InputFormat::kTable;
  if (is_known && std::none_of(files.begin(), files.end(), io::HasKnownExtension)) {
    return info.input->format;
  }
  return io::DetectInputFormat(files);
}

// The number of bits whose keys are below num_features, for a model that does not know how its
// training data was hashed.
Result<int> HashBitsOf(InputFormat format, uint64_t num_features) {
  const bool hashes = format == InputFormat::kVw || format == InputFormat::kCriteo;
  if (!hashes || num_features == 0) return 0;
  if (std::has_single_bit(num_features)) return std::countr_zero(num_features);
  return Invalid("the model has " + trainer::ShapeText(num_features) +
                 ", which is not a power of 2: "
                 "set --hash_bits to the bits that its " +
                 io::InputFormatName(format) +
                 " data was hashed with, or convert the input like the training data");
}

// Whether a feature spec made the keys of the model. Then rows of any format get the same keys.
bool HasFeatures(const trainer::ModelInfo& info) { return info.input && info.input->rows.features; }

// The keys of another hash are not those of the model.
Status CheckHash(InputFormat format, const io::RowFormat& training) {
  const std::string trained =
      std::string("the model was trained on ") + io::InputFormatName(training.format) + " text";
  const auto hashes = [](InputFormat f) {
    return f == InputFormat::kVw || f == InputFormat::kCriteo;
  };
  if (format != training.format) {
    if (!hashes(format) || !hashes(training.format)) return {};
    return Invalid("the input is " + std::string(io::InputFormatName(format)) +
                   " text: " + trained + ", which makes other keys");
  }
  if (hashes(format) && FLAGS_hash_bits >= 0 && FLAGS_hash_bits != training.rows.hash_bits) {
    return Invalid("--hash_bits=" + std::to_string(FLAGS_hash_bits) + ": " + trained +
                   " with --hash_bits=" + std::to_string(training.rows.hash_bits) +
                   ": leave the flag out");
  }
  if (format == InputFormat::kVw && IsGiven("vw_hash_all") &&
      FLAGS_vw_hash_all != training.rows.hash_all) {
    return Invalid(std::string(FLAGS_vw_hash_all ? "--vw_hash_all: " : "--novw_hash_all: ") +
                   trained + (training.rows.hash_all ? " with" : " without") +
                   " --vw_hash_all: leave the flag out");
  }
  return {};
}

// The settings of the command line; else those of the training, if its data had the same format;
// else the defaults.
Result<io::RowOptions> RowsOf(InputFormat format, const trainer::ModelInfo& info) {
  const bool as_trained = info.input && info.input->format == format;
  io::RowOptions rows;
  if (as_trained) rows = info.input->rows;
  if (info.input) RETURN_IF_ERROR(CheckHash(format, *info.input));
  if (FLAGS_hash_bits >= 0) {
    rows.hash_bits = FLAGS_hash_bits;
  } else if (!as_trained) {
    ASSIGN_OR_RETURN(rows.hash_bits, HashBitsOf(format, info.num_features));
  }
  if (!as_trained || IsGiven("vw_hash_all")) rows.hash_all = FLAGS_vw_hash_all;
  if (!as_trained || IsGiven("index_base")) rows.index_base = FLAGS_index_base;
  if (!as_trained || IsGiven("label_feature")) rows.names.label = FLAGS_label_feature;
  if (!as_trained || IsGiven("index_feature")) rows.names.index = FLAGS_index_feature;
  if (!as_trained || IsGiven("value_feature")) rows.names.value = FLAGS_value_feature;
  if (!as_trained || IsGiven("weight_feature")) rows.names.weight = FLAGS_weight_feature;
  if (!as_trained || IsGiven("field_feature")) rows.names.field = FLAGS_field_feature;
  if (!FLAGS_metrics) rows.names.weight = "";  // scores do not depend on it
  if (info.input) rows.positive_label = info.input->rows.positive_label;
  rows.num_features = info.num_features;
  rows.centers = info.centers;
  rows.labels = io::Labels::kOptional;
  return rows;
}

const CommandSpec& PredictSpec() {
  static const CommandSpec spec = tools::WithRemoteFlags(
      {.name = "millrace-predict",
       .job = "scores rows or images with a saved model, or lists its largest weights",
       .arguments = "INPUT...",
       .groups = {{"Scoring",
                   {"model", "format", "output", "out", "metrics", "slices", "slice_values",
                    "explain"},
                   {{"model", File()},
                    {"format", OneOf({"auto", "tfrecord", "libsvm", "libffm", "vw", "criteo", "csv",
                                      "json", "table"})},
                    {"output", OneOf({"probability", "margin", "labeled"})},
                    {"out", File()}}},
                  {"Inspecting a model", {"top", "vocabulary"}, {{"vocabulary", File()}}},
                  {"Input",
                   {"unknown_key", "on_corrupt", "max_record_mb", "index_base", "hash_bits",
                    "vw_hash_all", "label_feature", "index_feature", "value_feature",
                    "weight_feature", "field_feature", "threads", "duckdb"},
                   {{"duckdb", File()},
                    {"unknown_key", OneOf({"error", "ignore"})},
                    {"on_corrupt", OneOf({"fail", "skip"})}}}},
       .always = {"model", "out"},
       .needs =
           {{{"format", "output", "metrics", "slices", "slice_values", "explain", "unknown_key",
              "on_corrupt", "max_record_mb", "index_base", "hash_bits", "vw_hash_all",
              "label_feature", "index_feature", "value_feature", "weight_feature", "field_feature",
              "threads"},
             {"top"},
             {"0"}},
            {{"metrics", "slices", "slice_values", "unknown_key", "threads"}, {"explain"}, {"0"}},
            {{"slices"}, {"metrics"}},
            {{"slice_values"}, {"slices"}},
            {{"threads"}, {"slices"}, {""}},
            {{"top", "slices", "slice_values", "explain", "format", "output", "unknown_key",
              "on_corrupt", "max_record_mb", "index_base", "hash_bits", "vw_hash_all",
              "label_feature", "index_feature", "value_feature", "weight_feature", "field_feature"},
             {"model"},
             {},
             {kNet},
             "a model of millrace-lr"},
            {{"vocabulary"}, {"top"}},
            {{"duckdb"}, {"format"}, {"table"}},
            {{"index_base"}, {"format"}, {"libsvm", "libffm"}},
            {{"hash_bits"}, {"format"}, {"vw", "criteo"}},
            {{"vw_hash_all"}, {"format"}, {"vw"}},
            {{"label_feature", "index_feature", "value_feature", "weight_feature", "field_feature"},
             {"format"},
             {"tfrecord"}},
            {{"label_feature", "weight_feature"}, {"metrics"}},
            {{"index_base", "hash_bits", "vw_hash_all", "label_feature", "index_feature",
              "value_feature", "weight_feature", "field_feature"},
             {"model"},
             {},
             {kWithFeatures},
             "a model without a feature spec"},
            {{"field_feature"}, {"model"}, {kFfm}}},
       .examples = {
           "millrace-predict --model=runs/1 'data/test-*.tfrecord' > scores",
           "millrace-predict --model=model.bin --metrics --out=/dev/null test.libsvm",
           "zcat test.svm.gz | millrace-predict --model=model.bin -",
           "millrace-predict --model=runs/lenet --metrics t10k-images-idx3-ubyte "
           "t10k-labels-idx1-ubyte > classes",
           "millrace-predict --model=runs/1 --metrics --output=labeled "
           "--out=runs/1/predictions.csv "
           "test.csv",
           "millrace-predict --model=runs/1 --explain=5 rows.csv",
           "millrace-predict --model=runs/1 --metrics --slices=site,country --out=/dev/null "
           "rows.csv",
           "millrace-predict --model=runs/1 --top=20 rows.csv",
           "millrace-predict --model=model.bin --top=20 --vocabulary=vocabulary.tsv",
           "millrace-predict export --model=runs/1 --out=model.serving (see export --help)"}});
  return spec;
}

const CommandSpec& ExportSpec() {
  static const CommandSpec spec = {
      .name = "millrace-predict export",
      .job = "writes a model for libmillrace-score and millrace-serve",
      .groups = {{"Export",
                  {"model", "out", "weights", "layout"},
                  {{"model", File()},
                   {"out", File()},
                   {"weights", OneOf({"f32", "f16", "bf16"})},
                   {"layout", OneOf({"auto", "dense", "hash"})}}}},
      .always = {"model", "out", "weights", "layout"},
      .examples = {"millrace-predict export --model=runs/1 --out=model.serving"}};
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
  if (FLAGS_unknown_key == "error" && FLAGS_on_corrupt == "skip") {
    return Invalid("--unknown_key=error ends the run: expected no --on_corrupt=skip with it");
  }
  if (FLAGS_output == "labeled" && (!FLAGS_metrics || !FLAGS_slices.empty())) {
    return Invalid("--output=labeled writes labels: expected --metrics with it, and no --slices");
  }
  if (FLAGS_top == 0 && args.empty()) {
    return Invalid("no input: name files, globs in quotes, @list, or - for standard input");
  }
  return {};
}

// The input rows, read as the model needs them.
Result<io::InputOptions> InputFromFlags(const Args& args, const trainer::ModelInfo& info) {
  const bool is_ffm = info.factors.kind == sparse::ModelKind::kFfm;
  io::InputOptions input;
  ASSIGN_OR_RETURN(input.files, FilesOf(args));
  ASSIGN_OR_RETURN(input.format, FormatOf(input.files, info));
  RETURN_IF_ERROR(tools::CheckEffects(
      PredictSpec(), {{"format", {io::InputFormatName(input.format)}},
                      {"model", {HasFeatures(info) ? kWithFeatures : "", is_ffm ? kFfm : ""}}}));
  if (HasFeatures(info)) {
    input.rows.duckdb = FLAGS_duckdb;
    RETURN_IF_ERROR(io::UseFeatures(info.input->rows.features, input));
    input.rows.labels = io::Labels::kOptional;
    input.rows.centers = info.centers;
  } else {
    ASSIGN_OR_RETURN(input.rows, RowsOf(input.format, info));
  }
  if (is_ffm) RETURN_IF_ERROR(io::UseFields(info.factors.fields, input));
  ASSIGN_OR_RETURN(input.on_corrupt, io::OnCorruptFromName(FLAGS_on_corrupt));
  ASSIGN_OR_RETURN(input.max_record_bytes, tools::MaxRecordBytes(FLAGS_max_record_mb));
  return input;
}

// `model` outlives the options.
Result<ScoreOptions> ScoreOptionsFromFlags(const Args& args, const trainer::Model& model) {
  const trainer::ModelInfo& info = model.info();
  ScoreOptions options;
  io::InputOptions& input = options.input;
  ASSIGN_OR_RETURN(options.kind, ScoreKindFromName(FLAGS_output));
  ASSIGN_OR_RETURN(input, InputFromFlags(args, info));
  input.batch_size = kBatchRows;
  input.compact = io::NeedsWideKeys(info.num_features);
  if (FLAGS_unknown_key == "error") {
    input.rows.knows_key = [&model](uint64_t key) { return model.Weight(key) != 0; };
  } else {
    input.rows.unknown_key = io::UnknownKey::kLeaveOut;
  }
  input.shuffle_capacity = 0;
  input.streaming = true;
  input.threads = Threads();
  options.out = FLAGS_out;
  options.metrics = FLAGS_metrics;
  return options;
}

void PrintModel(const std::string& path, const trainer::ModelInfo& info) {
  const bool has_factors = info.factors.kind != sparse::ModelKind::kLr;
  std::fprintf(stderr, "%s: %s%s, %s, %s, %s, %s\n", PrintableLines(path).c_str(),
               has_factors ? (sparse::KindText(info.factors) + ", ").c_str() : "",
               Counted(info.weights, "weight").c_str(),
               trainer::ShapeText(info.num_features).c_str(), info.rule.c_str(),
               Counted(info.steps, "step").c_str(), Counted(info.examples, "example").c_str());
}

// One digit, rounded down: 100 % are all.
double Percent(double share) { return std::floor(share * 1000) / 10; }

void PrintMetrics(const trainer::BinaryMetrics& metrics, const ScoreSummary& summary) {
  std::fprintf(stderr, "examples    %s\n", WithCommas(metrics.examples).c_str());
  for (const trainer::NamedValue& metric : trainer::NamedValues(metrics)) {
    std::fprintf(stderr, "%-11s %.6f\n", std::string(metric.name).c_str(), metric.value);
  }
  if (metrics.nan_margins > 0) {
    std::fprintf(stderr, "%s: %s examples have no finite score and are in no metric\n", kProgram,
                 WithCommas(metrics.nan_margins).c_str());
  }
  if (std::isnan(summary.known_keys)) return;  // no row has an entry
  std::fprintf(stderr, "%.1f %% of keys have a weight (%.1f %% of the rows' values)\n",
               Percent(summary.known_keys), Percent(summary.known_values));
}

std::vector<std::string> Words(std::string_view list) {
  std::vector<std::string> words;
  while (!list.empty()) {
    const size_t end = std::min(list.find(','), list.size());
    words.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return words;
}

std::string Figure(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6f", value);
  return std::isnan(value) ? "-" : text;
}

Status RunSlices(const trainer::Model& model, const ScoreOptions& options) {
  if (!options.input.rows.features) {
    return Invalid("--slices needs a model with a feature spec, which names the fields");
  }
  CatchInterrupts();
  ASSIGN_OR_RETURN(const SliceSummary summary, ScoreSlices(model, options));
  ScoreSummary uncounted;
  uncounted.known_keys = std::nan("");
  PrintMetrics(summary.metrics, uncounted);
  tools::TextTable table({{"slice"},
                          {"rows", true},
                          {"positives", true},
                          {"logloss", true},
                          {"auc", true},
                          {"calibration", true}});
  for (const SliceMetrics& slice : summary.slices) {
    table.Add({slice.name, WithCommas(slice.rows), WithCommas(slice.positives),
               Figure(slice.metrics.logloss), Figure(slice.metrics.auc),
               Figure(slice.metrics.calibration)});
  }
  std::fprintf(stderr, "\n%s", table.Text().c_str());
  return {};
}

Status RunScore(const trainer::Model& model, const Args& args) {
  ASSIGN_OR_RETURN(ScoreOptions options, ScoreOptionsFromFlags(args, model));
  options.slices = Words(FLAGS_slices);
  options.slice_values = FLAGS_slice_values;
  if (!options.slices.empty()) return RunSlices(model, options);
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
  if (options.metrics) PrintMetrics(summary.metrics, summary);
  return {};
}

Status RunExplain(const trainer::Model& model, const Args& args) {
  ExplainOptions options;
  options.count = FLAGS_explain;
  options.out = FLAGS_out;
  ASSIGN_OR_RETURN(options.kind, ScoreKindFromName(FLAGS_output));
  ASSIGN_OR_RETURN(options.input, InputFromFlags(args, model.info()));
  options.input.rows.unknown_key = io::UnknownKey::kLeaveOut;
  RETURN_IF_ERROR(io::CheckNames(options.input));
  CatchInterrupts();
  return WriteExplanations(model, options);
}

Status RunTop(const trainer::Model& model, const Args& args) {
  TopOptions options = {.count = FLAGS_top, .vocabulary = FLAGS_vocabulary, .out = FLAGS_out};
  if (!args.empty() && !HasFeatures(model.info())) {
    return Invalid("--top reads rows only for a model with a feature spec: leave out " + args[0]);
  }
  if (!FLAGS_vocabulary.empty() && HasFeatures(model.info())) {
    return Invalid(
        "--vocabulary has no effect: it belongs to models without a feature spec; rows show the "
        "names of features");
  }
  if (!args.empty()) {
    ASSIGN_OR_RETURN(options.input, InputFromFlags(args, model.info()));
    CatchInterrupts();
  }
  RETURN_IF_ERROR(tools::CheckEffects(PredictSpec()));
  PrintModel(FLAGS_model, model.info());
  return WriteTopWeights(model, options);
}

// Whether the file is a state file of a net, a model or a checkpoint. Errors are left to the
// reader.
bool IsNet(const std::string& file) {
  const Result<io::StateReader> reader = io::StateReader::Open(file);
  if (!reader.ok()) return false;
  const Result<std::string> kind = reader->fields().Text("kind");
  return kind.ok() && kind->starts_with("net");
}

Status RunScoreNet(const std::string& file, const Args& args) {
  RETURN_IF_ERROR(tools::CheckEffects(PredictSpec(), {{"model", {kNet}}}));
  NetScoreOptions options = {.model = file,
                             .patterns = {},
                             .out = FLAGS_out,
                             .metrics = FLAGS_metrics,
                             .threads = Threads()};
  for (const std::string& arg : args)
    options.patterns += (options.patterns.empty() ? "" : ",") + arg;
  if (options.out != "-") CatchInterrupts();
  ASSIGN_OR_RETURN(const NetSummary summary, ScoreNet(options));
  if (!options.metrics) return {};
  std::fprintf(stderr, "examples    %s\naccuracy    %.6f\nlogloss     %.6f\n",
               WithCommas(summary.images).c_str(), summary.accuracy, summary.logloss);
  return {};
}

Status Run(const Args& args) {
  RETURN_IF_ERROR(CheckFlags(args));
  const Result<std::string> file = trainer::ModelFileOf(FLAGS_model);
  if (file.ok() && IsNet(*file)) return RunScoreNet(*file, args);
  ASSIGN_OR_RETURN(const trainer::Model model, trainer::LoadModel(FLAGS_model));
  if (FLAGS_explain > 0) return RunExplain(model, args);
  if (FLAGS_top == 0) return RunScore(model, args);
  return RunTop(model, args);
}

Status RunExport(const Args& args) {
  if (FLAGS_model.empty()) return Invalid("no model: write --model=FILE, or --model=RUN_DIR");
  if (FLAGS_out == "-") return Invalid("no file: write --out=FILE");
  if (!args.empty()) return Invalid("unexpected argument '" + args[0] + "': export reads no input");
  ExportOptions options = {
      .model = FLAGS_model, .out = FLAGS_out, .should_stop = tools::Interrupted};
  ASSIGN_OR_RETURN(options.weights, score::WeightsTypeFromName(FLAGS_weights));
  if (FLAGS_layout != "auto") {
    options.layout = FLAGS_layout == "hash" ? score::Layout::kHash : score::Layout::kDense;
  }
  CatchInterrupts();
  ASSIGN_OR_RETURN(const ExportSummary summary, ExportModel(options));
  std::fprintf(stderr, "%s: %s, %s of %s weights, %s\n", PrintableLines(FLAGS_out).c_str(),
               Counted(summary.features, "feature").c_str(),
               summary.table.layout == score::Layout::kHash ? "a hash table" : "an array",
               score::WeightsTypeName(summary.table.type), BytesText(summary.bytes).c_str());
  return {};
}

int MainOfExport(const tools::ProgramSpec& program, const std::vector<std::string>& words) {
  const Result<ParsedLine> line = ParseLine(ExportSpec(), program.commands, words);
  if (!line.ok()) return Fail(kProgram, line.status());
  if (const auto status = Answer(program, &ExportSpec(), line->action)) return *status;
  const Status status = RunExport(line->args);
  return status.ok() ? 0 : Fail(kProgram, status);
}

int Main(const std::vector<std::string>& words) {
  const tools::ProgramSpec program = {
      .name = kProgram, .job = PredictSpec().job, .commands = {&PredictSpec(), &ExportSpec()}};
  if (!words.empty() && words[0] == "export") {
    return MainOfExport(program, {words.begin() + 1, words.end()});
  }
  const Result<ParsedLine> line = ParseLine(PredictSpec(), program.commands, words);
  if (!line.ok()) return Fail(kProgram, line.status());
  if (const auto status = Answer(program, &PredictSpec(), line->action)) return *status;
  tools::UseRemoteFlags(kProgram);
  const Status status = Run(line->args);
  if (status.ok()) return 0;
  const int exit_status = Fail(kProgram, status);
  std::fflush(nullptr);
  std::_Exit(exit_status);  // a thread may still be blocked on input, see Score
}

}  // namespace
}  // namespace millrace::predict

int main(int argc, char** argv) {
  // A closed pipe ("| head") ends the program without a message.
  std::signal(SIGPIPE, SIG_DFL);
  return millrace::tools::ProgramMain(millrace::predict::kProgram, millrace::predict::Main, argc,
                                      argv);
}
