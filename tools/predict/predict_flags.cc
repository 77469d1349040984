#include "tools/predict/predict_flags.h"

#include <gflags/gflags.h>

#include <algorithm>
#include <bit>
#include <thread>
#include <vector>

#include "io/stream/file_list.h"
#include "io/text/vw.h"
#include "tools/predict/run_flags.h"

DEFINE_string(model, "", "the model: binary or text, a checkpoint, or a run folder (its model)");
DEFINE_string(format, "auto",
              "of the input: tfrecord, libsvm, vw, criteo, or auto (by the files' endings; where "
              "they say nothing, as in training if --model is a run folder, else tfrecord)");
DEFINE_string(output, "probability",
              "what to write, a line for each row in the order of the files and of their rows: "
              "probability or margin");
DEFINE_string(out, "-", "where to write; - is standard output");
DEFINE_bool(metrics, false,
            "print logloss, auc and so on, from the labels, on standard error; without it rows "
            "need no labels");
DEFINE_uint64(top, 0, "list so many of the largest weights instead of scoring");
DEFINE_string(vocabulary, "", "with --top: the Criteo vocabulary that names the features");
DEFINE_string(on_corrupt, "fail",
              "what a damaged record does: fail, or skip (counted and reported; it has no line)");
DEFINE_int32(index_base, 0, "libsvm: the first feature's number, 0 or 1");
DEFINE_int32(hash_bits, -1,
             "vw and criteo: bits of the hashed keys, 0 for 64; -1: as the model's size says");
DEFINE_bool(hash_all, millrace::io::VwOptions{}.hash_all,
            "vw: numbers are hashed with their namespace like other names");
DEFINE_bool(constant, millrace::io::VwOptions{}.constant,
            "vw: add a constant feature to every row");
DEFINE_string(label_feature, millrace::io::FeatureNames{}.label, "name of the label feature");
DEFINE_string(index_feature, millrace::io::FeatureNames{}.index,
              "name of the feature with the keys");
DEFINE_string(value_feature, millrace::io::FeatureNames{}.value,
              "name of the feature with the values");
DEFINE_string(weight_feature, millrace::io::FeatureNames{}.weight,
              "name of the feature with the example's weight; empty: none");
DEFINE_uint64(threads, 0, "threads that read; 0: one for each core");

namespace millrace::tools {
namespace {

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

// The bits that give keys below num_features.
Result<int> HashBits(InputFormat format, uint64_t num_features) {
  if (FLAGS_hash_bits >= 0) return FLAGS_hash_bits;
  const bool hashes = format == InputFormat::kVw || format == InputFormat::kCriteo;
  if (!hashes || num_features == 0) return 0;
  if (std::has_single_bit(num_features)) return std::countr_zero(num_features);
  return Invalid("the model has " + trainer::ShapeText(num_features) +
                 ", which is no power of 2: "
                 "say with --hash_bits how its " +
                 io::InputFormatName(format) +
                 " data was hashed, or convert the input as the training data was");
}

}  // namespace

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
                 {"Looking into a model", {"top", "vocabulary"}, {{"vocabulary", File()}}},
                 {"Input",
                  {"on_corrupt", "index_base", "hash_bits", "hash_all", "constant", "label_feature",
                   "index_feature", "value_feature", "weight_feature", "threads"},
                  {{"on_corrupt", OneOf({"fail", "skip"})}}}},
      .examples = {"millrace-predict --model=runs/1 'data/test-*.tfrecord' > scores",
                   "millrace-predict --model=model.bin --metrics --out=/dev/null test.libsvm",
                   "zcat test.svm.gz | millrace-predict --model=model.bin --format=libsvm -",
                   "millrace-predict --model=model.bin --top=20 --vocabulary=vocabulary.tsv"}};
  return spec;
}

Status CheckFlags(const Args& args) {
  if (FLAGS_model.empty()) return Invalid("no model: write --model=FILE, or --model=RUN_DIR");
  if (FLAGS_index_base != 0 && FLAGS_index_base != 1) {
    return Invalid("--index_base=" + std::to_string(FLAGS_index_base) + ": expected 0 or 1");
  }
  if (FLAGS_hash_bits < -1 || FLAGS_hash_bits > 64) {
    return Invalid("--hash_bits=" + std::to_string(FLAGS_hash_bits) + ": expected -1 to 64");
  }
  if (FLAGS_top > 0) return CheckTopFlags(args);
  if (!FLAGS_vocabulary.empty()) return Invalid("--vocabulary goes with --top=N");
  if (args.empty()) {
    return Invalid("no input: name files, globs in quotes, @list, or - for standard input");
  }
  return {};
}

std::string ModelPathFromFlags() { return FLAGS_model; }

std::string TakeTrainingFlags(const Args& args) {
  std::vector<std::string> names = {"index_base",    "hash_bits",     "hash_all",     "constant",
                                    "label_feature", "index_feature", "value_feature"};
  // A name that says what a file is counts for more than what the training read.
  const Result<std::vector<std::string>> files = FilesOf(args);
  if (files.ok() && std::none_of(files->begin(), files->end(), io::HasKnownExtension)) {
    names.insert(names.begin(), "format");
  }
  return TakeRunFlags(FLAGS_model, names);
}

bool TopIsAskedFor() { return FLAGS_top > 0; }

TopOptions TopOptionsFromFlags() {
  return {.count = FLAGS_top, .vocabulary = FLAGS_vocabulary, .out = FLAGS_out};
}

Result<ScoreOptions> ScoreOptionsFromFlags(const Args& args, const trainer::ModelInfo& info) {
  ScoreOptions options;
  io::InputOptions& input = options.input;
  ASSIGN_OR_RETURN(options.kind, ScoreKindFromName(FLAGS_output));
  ASSIGN_OR_RETURN(input.files, FilesOf(args));
  ASSIGN_OR_RETURN(input.format, FormatOf(input.files));
  ASSIGN_OR_RETURN(input.on_corrupt, io::OnCorruptFromName(FLAGS_on_corrupt));
  ASSIGN_OR_RETURN(input.rows.hash_bits, HashBits(input.format, info.num_features));
  input.rows.names = {.label = FLAGS_label_feature,
                      .index = FLAGS_index_feature,
                      .value = FLAGS_value_feature,
                      .weight = FLAGS_weight_feature};
  input.rows.num_features = info.num_features;
  input.rows.index_base = FLAGS_index_base;
  input.rows.constant = FLAGS_constant;
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

}  // namespace millrace::tools
