// SPDX-License-Identifier: Apache-2.0
#include "tools/lr/lr_flags.h"

#include <gflags/gflags.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <thread>

#include "io/stream/file_list.h"
#include "io/text/vw.h"
#include "tools/common/remote_flags.h"
#include "tools/common/training_flags.h"
#include "trainer/model/model_reader.h"
#include "trainer/sparse/earlier_run.h"

using millrace::io::InputOptions;
using millrace::sparse::UpdateOptions;
using millrace::trainer::TrainOptions;

DEFINE_string(
    train, "",
    "training files, local or remote (s3://BUCKET/KEY, https://HOST/PATH): names, globs, comma "
    "lists, @file with one pattern per line, - for standard input; or \"sql:SELECT ...\", a query "
    "of Parquet and other files");
DEFINE_string(test, "", "test files, in the same form; without them the model is not evaluated");
DEFINE_string(
    format, "auto",
    "tfrecord, libsvm, libffm, vw, criteo, csv, json or table (Parquet, SQL); auto: by the "
    "content of the files, else by their names");
DEFINE_string(duckdb, "",
              "libduckdb.so, which reads Parquet and SQL; empty: a usual place, where "
              "tools/get_duckdb.sh puts it");
DEFINE_string(features, "",
              "feature spec (JSON), which makes keys of named columns; millrace-records infer "
              "writes one");
DEFINE_string(label_feature, millrace::io::FeatureNames{}.label, "name of the label feature");
DEFINE_string(index_feature, millrace::io::FeatureNames{}.index,
              "name of the feature with the keys");
DEFINE_string(value_feature, millrace::io::FeatureNames{}.value,
              "name of the feature with the values");
DEFINE_string(weight_feature, millrace::io::kWeightFeature,
              "name of the feature with the example's weight, if the records have it; empty: all "
              "weights are 1");
DEFINE_string(field_feature, millrace::io::FeatureNames{}.field,
              "ffm: name of the feature with the fields");
DEFINE_string(positive_label, "",
              "the label that becomes 1, every other becomes 0; if empty, labels must be 0, 1 or "
              "-1 (which becomes 0)");
DEFINE_int32(index_base, 0, "libsvm, libffm: subtracted from every index, 0 or 1");
DEFINE_int32(hash_bits, 0, "VW and Criteo text: number of bits of the hashed keys, 0 for 64");
DEFINE_bool(
    vw_hash_all, millrace::io::VwOptions{}.hash_all,
    "VW text: hash all names with their namespace, as vw --hash all; --novw_hash_all: a name of "
    "digits is its key, in any namespace");
DEFINE_string(
    unknown_key, "ignore",
    "what to do with a key of the test files that is not below --num_features: ignore (it "
    "counts as a weight of 0), or error (which names file, row and key)");
DEFINE_string(on_corrupt, "fail",
              "what to do with a corrupt record: fail, or skip (counted and reported)");
DEFINE_uint64(max_record_mb, InputOptions{}.max_record_bytes >> 20,
              "longest record or line in megabytes, at most 2048; bounds the memory of the input");

DEFINE_uint64(
    num_features, 0,
    "all keys are below this number; 0: any 64-bit key, in a hashed-key table that grows");
DEFINE_bool(intercept, millrace::sparse::ModelShape{}.intercept,
            "the model has an intercept, which is not regularised; --nointercept: none");
DEFINE_string(model, "lr",
              "lr (logistic regression), fm (factorization machine, with pairwise interactions) or "
              "ffm (field-aware: a feature has other factors for each field of its partners)");
DEFINE_uint64(factors, 0,
              "factors of a feature (ffm: for each field), a multiple of 4 up to 64; if not given, "
              "8 for fm and 4 for ffm; with --continue as in the earlier "
              "run");
DEFINE_double(factor_l2, UpdateOptions{}.factor_l2, "fm, ffm: L2 strength of the factors");
DEFINE_double(factor_init, millrace::sparse::kDefaultFactorInit,
              "fm, ffm: standard deviation of the initial factors, which derive from seed and key");
DEFINE_uint64(num_fields, 0,
              "ffm: all fields of libffm text and TFRecords are below this number; a feature spec "
              "and Criteo text have their own");
DEFINE_uint64(admit_factors, millrace::sparse::FactorShape{}.admit,
              "fm, ffm, hashed-key tables: a feature has factors from this one on of the training "
              "batches that contain it, and a weight alone before");
DEFINE_string(optimizer, millrace::sparse::RuleName(UpdateOptions{}.rule),
              "sgd, adagrad, ftrl or adam");
DEFINE_string(learning_rate, "auto",
              "a number, or auto: the best of six rates around the optimizer's default (sgd 0.5, "
              "adagrad and ftrl 0.1, adam 0.001) on the first rows");
DEFINE_string(normalize, "auto",
              "train on values divided by the largest of their feature, so that units do not "
              "matter: on, off, or auto (on if the first rows have values other than 1)");
DEFINE_string(decay, "constant",
              "decay of the learning rate of sgd and adam: constant, or sqrt (rate / sqrt(step))");
DEFINE_double(l1, UpdateOptions{}.l1, "L1 strength (ftrl)");
DEFINE_double(l2, UpdateOptions{}.l2, "L2 strength");
DEFINE_double(ftrl_beta, UpdateOptions{}.ftrl_beta,
              "ftrl: larger values make the first steps of a feature smaller");
DEFINE_double(adagrad_epsilon, UpdateOptions{}.adagrad_epsilon,
              "adagrad: added to the sum of squared gradients of a feature");
DEFINE_double(adagrad_initial, UpdateOptions{}.adagrad_initial,
              "adagrad: initial sum of squared gradients; that of TensorFlow is 0.1");
DEFINE_string(kernel, TrainOptions{}.kernel,
              "auto (the fastest), or native, mkl, plain: compacted batches with these kernels");

DEFINE_string(sweep, "",
              "train several configurations at once on the same rows: "
              "\"learning_rate=0.05,0.1;l1=0,1\" (each combination), or random:N (N draws, seeded: "
              "the optimizer's default rate / 10 .. * 10 and, with ftrl, l1=0.01..10), or "
              "\"random:N;learning_rate=0.01..1;l2=0,1\"; also ftrl_beta, adagrad_epsilon, "
              "adagrad_initial, factor_l2. The best model is kept");
DEFINE_uint64(
    sweep_halving, 0,
    "drop the worse half of the configurations, by progressive loss, after this number of "
    "examples, twice as many, four times as many, ...; 0: none");
DEFINE_bool(sweep_models, false,
            "keep the models of all configurations, as run_dir/sweep/NUMBER/model.bin");

DEFINE_uint64(batch_size, 0,
              "examples per step; 0: 100, or fewer if a pass would have less than 300 steps; with "
              "--continue as in the earlier run");
DEFINE_uint64(test_batch_size, 1000, "examples per batch of the evaluation");
DEFINE_uint64(epochs, InputOptions{}.epochs, "passes over the training files");
DEFINE_uint64(
    max_examples, TrainOptions{}.max_examples,
    "stop after the batch that reaches this number of training examples; 0: after the epochs");
DEFINE_uint64(eval_every, TrainOptions{}.eval_every,
              "training examples between evaluations; 0: evaluate only at the end");
DEFINE_string(early_stop, "",
              "METRIC:N, such as auc:3: stop after N evaluations without a better value; keeps the "
              "best model, see save_best");
DEFINE_string(save_best, "",
              "METRIC (auc, logloss, ne, accuracy, f1, precision, recall): keep the model of the "
              "best evaluation as run_dir/model/best.bin, beside the last one, model.bin");
DEFINE_uint64(seed, InputOptions{}.seed, "determines the order of the data");
DEFINE_string(order, "shuffled",
              "shuffled, or files: the files by name and their rows as they stand (chronological)");
DEFINE_uint64(shuffle_capacity, InputOptions{}.shuffle_capacity,
              "size of the shuffle buffer in records; 0: the files as listed, rows as they stand");
DEFINE_uint64(
    min_after_dequeue, 0,
    "refill the shuffle buffer when this number of records is left; 0: half of its capacity");
DEFINE_uint64(hogwild, TrainOptions{}.hogwild,
              "threads that train on the same weights without locks (sgd): not deterministic, and "
              "slower on skewed data");
DEFINE_uint64(cache, 0, "megabytes of decoded rows to keep in memory for later epochs");
DEFINE_uint64(threads, 0,
              "threads that read and decode, in addition to the training thread; 0: one per core");

DECLARE_string(run_dir);
DECLARE_bool(resume);
DECLARE_string(model_in);
DECLARE_string(model_out);
DECLARE_uint64(checkpoint_every);

DEFINE_string(continue, "",
              "start a new run from the model of an earlier one with its optimizer state and "
              "counts: a run folder or a checkpoint (or a model file: weights alone)");
DEFINE_bool(save_state, true,
            "save the optimizer state at the end in run_dir/checkpoints, for --continue");
DEFINE_string(model_format, "binary", "binary, text or npy");
DEFINE_uint64(dashboard, 0,
              "port of a live page on 127.0.0.1, with /metrics for Prometheus; 0: none");

namespace millrace::lr {
namespace {

using tools::CheckTrainingFlags;
using tools::CommandSpec;
using tools::File;
using tools::FlagValues;
using tools::OneOf;
using tools::ProfileFromFlags;
using tools::RunFlags;
using tools::RunFolderFromFlags;
using tools::SessionFromFlags;
using tools::WorkerFlags;

bool IsGiven(const char* flag) { return !gflags::GetCommandLineFlagInfoOrDie(flag).is_default; }

// Whether `path` is `folder` or in it.
bool IsInside(const std::string& path, const std::string& folder) {
  if (folder.empty()) return false;
  std::error_code ignored;
  const auto inner = std::filesystem::weakly_canonical(path, ignored);
  const auto outer = std::filesystem::weakly_canonical(folder, ignored);
  const auto [end, at] = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
  return end == outer.end();
}

// The value of a word "name=value" of CheckpointInfo::data; empty if there is none.
std::string WordOf(const std::string& data, const std::string& name) {
  std::istringstream words(data);
  for (std::string word; words >> word;) {
    if (word.starts_with(name + "=")) return word.substr(name.size() + 1);
  }
  return "";
}

// The keys of the new data must be those of the earlier run: how text becomes keys is taken from
// it, and a flag that says otherwise is an error.
Status TakeEarlierKeys(const std::string& data, trainer::TrainOptions& options) {
  const std::string format = io::InputFormatName(options.train.format);
  const std::string earlier = WordOf(data, "format");
  if (options.train.rows.features) return {};  // the same keys in every format
  if (earlier != format && earlier != "tfrecord" && format != "tfrecord") {
    return Invalid("the training data is " + format + ", that of the earlier run was " + earlier +
                   ", which makes other keys");
  }
  if (earlier != format) return {};
  const auto take = [&](const char* flag, const char* name, auto& train, auto& test) -> Status {
    const std::string before = WordOf(data, name), now = std::to_string(train);
    if (before.empty() || before == now) return {};
    if (IsGiven(flag)) {
      return Invalid(std::string(flag) + ": this run has " + now + ", the earlier one " + before +
                     ", which makes other keys");
    }
    train = test = static_cast<std::decay_t<decltype(train)>>(std::stoi(before));
    return {};
  };
  io::RowOptions &train = options.train.rows, &test = options.test.rows;
  RETURN_IF_ERROR(take("index_base", "index_base", train.index_base, test.index_base));
  RETURN_IF_ERROR(take("hash_bits", "hash_bits", train.hash_bits, test.hash_bits));
  return take("vw_hash_all", "hash_all", train.hash_all, test.hash_all);
}

Status UseFeatures(const std::shared_ptr<const io::EncoderPlan>& features, TrainOptions& options);

// The spec of the earlier run: from its checkpoint, or else from its model.
std::shared_ptr<const io::EncoderPlan> EarlierFeatures(const trainer::EarlierRun& earlier) {
  if (earlier.info.input) return earlier.info.input->rows.features;
  const auto model =
      trainer::ModelReader::Open(earlier.model.empty() ? FLAGS_continue : earlier.model);
  if (!model.ok() || !(*model)->info().input) return nullptr;
  return (*model)->info().input->rows.features;
}

// A continued run has the spec of the earlier one, or one that extends its vocabularies.
Status TakeEarlierFeatures(const trainer::EarlierRun& earlier, TrainOptions& options) {
  const auto before = EarlierFeatures(earlier);
  const auto& given = options.train.rows.features;
  if (before && given) return io::CheckExtends(given->spec(), before->spec());
  if (before) return UseFeatures(before, options);
  if (!given && WordOf(earlier.info.data, "spec").empty()) return {};
  if (!before && given && WordOf(earlier.info.data, "spec") != trainer::SpecDigest(given->spec())) {
    return Invalid("the earlier run has " +
                   std::string(WordOf(earlier.info.data, "spec").empty() ? "no" : "another") +
                   " feature spec");
  }
  if (!before && !given) return Invalid("the earlier run has a feature spec: expected the same");
  return {};
}

void TakeEarlierBatchSize(const std::string& data, trainer::TrainOptions& options) {
  const std::string before = WordOf(data, "batch_size");
  uint64_t size = 0;
  std::from_chars(before.data(), before.data() + before.size(), size);
  if (size > 0) options.train.batch_size = size;
  options.auto_batch_size = false;
}

// A number of factors that the earlier model does not have is an error of CheckContinues.
void TakeEarlierKind(const sparse::FactorShape& earlier, sparse::FactorShape& shape) {
  if (!IsGiven("model")) shape.kind = earlier.kind;
  if (shape.kind != earlier.kind || shape.kind == sparse::ModelKind::kLr) return;
  if (!IsGiven("factors")) shape.factors = earlier.factors;
  if (!IsGiven("num_fields")) shape.fields = earlier.fields;
  if (!IsGiven("factor_init")) shape.init = earlier.init;
  if (!IsGiven("admit_factors")) shape.admit = earlier.admit;
}

// The rows of an ffm have fields. `number`: what the command line or the earlier run says.
Status TakeFields(uint64_t number, TrainOptions& options) {
  sparse::FactorShape& shape = options.shape.factors;
  if (shape.kind != sparse::ModelKind::kFfm) return {};
  RETURN_IF_ERROR(io::UseFields(number, options.train));
  if (!options.test.files.empty()) {
    RETURN_IF_ERROR(io::UseFields(options.train.rows.num_fields, options.test));
  }
  shape.fields = static_cast<uint32_t>(options.train.rows.num_fields);
  return shape.Validate();
}

// Options of the earlier run that the command line does not give.
Status TakeEarlierOptions(LrOptions& lr) {
  trainer::TrainOptions& options = lr.train;
  if (FLAGS_continue.empty()) return {};
  ASSIGN_OR_RETURN(const trainer::EarlierRun earlier, trainer::FindEarlierRun(FLAGS_continue));
  uint64_t num_features = earlier.info.num_features;
  if (earlier.checkpoint) {
    UpdateOptions update = earlier.info.update;
    const UpdateOptions& given = options.update;
    if (IsGiven("optimizer")) update.rule = given.rule;
    if (given.rate > 0) update.rate = given.rate;
    if (IsGiven("decay")) update.decay = given.decay;
    if (IsGiven("l1")) update.l1 = given.l1;
    if (IsGiven("l2")) update.l2 = given.l2;
    if (IsGiven("factor_l2")) update.factor_l2 = given.factor_l2;
    if (IsGiven("ftrl_beta")) update.ftrl_beta = given.ftrl_beta;
    if (IsGiven("adagrad_epsilon")) update.adagrad_epsilon = given.adagrad_epsilon;
    if (IsGiven("adagrad_initial")) update.adagrad_initial = given.adagrad_initial;
    options.update = update;
    TakeEarlierKind(earlier.info.factors, options.shape.factors);
    lr.continues = true;
  } else {
    ASSIGN_OR_RETURN(const auto model, trainer::ModelReader::Open(earlier.model));
    num_features = model->info().num_features;
    TakeEarlierKind(model->info().factors, options.shape.factors);
  }
  const Status features = TakeEarlierFeatures(earlier, options);
  if (!features.ok()) {
    return Invalid("--continue=" + FLAGS_continue + ": " + features.message());
  }
  if (!IsGiven("num_features") && !options.train.rows.features) {
    options.shape.num_features = num_features;
    options.train.rows.num_features = options.test.rows.num_features = num_features;
  }
  RETURN_IF_ERROR(TakeFields(IsGiven("num_fields")         ? FLAGS_num_fields
                             : options.train.rows.features ? 0
                                                           : options.shape.factors.fields,
                             options));
  if (!earlier.checkpoint) return {};
  if (FLAGS_batch_size == 0) TakeEarlierBatchSize(earlier.info.data, options);
  const Status same_keys = TakeEarlierKeys(earlier.info.data, options);
  if (!same_keys.ok()) return Invalid("--continue=" + FLAGS_continue + ": " + same_keys.message());
  const Status fits = sparse::CheckContinues({.num_features = options.shape.num_features,
                                              .intercept = options.shape.intercept,
                                              .factors = options.shape.factors,
                                              .update = options.update},
                                             earlier.info);
  return fits.ok() ? fits : Invalid("--continue=" + FLAGS_continue + ": " + fits.message());
}

// Fields of the spec with l1, l2 or rate; the first two stand for those of the run.
void SetKeyGroups(const io::EncoderPlan* features, UpdateOptions& update) {
  update.key_groups = {};
  if (!features) return;
  const io::FieldGroups fields = features->spec().Groups();
  for (const io::FieldUpdate& own : fields.updates) {
    update.key_groups.groups.push_back(
        {.rate = own.rate, .l1 = own.l1.value_or(update.l1), .l2 = own.l2.value_or(update.l2)});
  }
  for (const auto& [first_key, group] : fields.ranges) {
    update.key_groups.ranges.push_back({.first = first_key, .group = group});
  }
}

size_t Threads() {
  if (FLAGS_threads > 0) return FLAGS_threads;
  return std::max<size_t>(1, std::thread::hardware_concurrency());
}

Result<InputOptions> Input(const std::string& patterns) {
  InputOptions input;
  ASSIGN_OR_RETURN(input.files, io::ExpandFiles(patterns));
  if (FLAGS_format == "auto") {
    ASSIGN_OR_RETURN(input.format, io::DetectInputFormat(input.files));
  } else {
    ASSIGN_OR_RETURN(input.format, io::InputFormatFromName(FLAGS_format));
  }
  ASSIGN_OR_RETURN(input.on_corrupt, io::OnCorruptFromName(FLAGS_on_corrupt));
  ASSIGN_OR_RETURN(input.max_record_bytes, tools::MaxRecordBytes(FLAGS_max_record_mb));
  input.rows = {.names = {.label = FLAGS_label_feature,
                          .index = FLAGS_index_feature,
                          .value = FLAGS_value_feature,
                          .weight = FLAGS_weight_feature,
                          .field = FLAGS_field_feature},
                .num_features = FLAGS_num_features,
                .index_base = FLAGS_index_base,
                .hash_bits = FLAGS_hash_bits,
                .hash_all = FLAGS_vw_hash_all,
                .duckdb = FLAGS_duckdb};
  ASSIGN_OR_RETURN(input.rows.positive_label, tools::PositiveLabel(FLAGS_positive_label));
  input.threads = Threads();
  return input;
}

// Sets the spec of both inputs, and the number of features that it gives.
Status UseFeatures(const std::shared_ptr<const io::EncoderPlan>& features, TrainOptions& options) {
  options.shape.num_features = features->spec().num_features();
  RETURN_IF_ERROR(io::UseFeatures(features, options.train));
  return options.test.files.empty() ? Status() : io::UseFeatures(features, options.test);
}

Status TakeFeatures(TrainOptions& options) {
  if (FLAGS_features.empty()) return {};
  ASSIGN_OR_RETURN(const io::FeatureSpec spec, io::LoadFeatureSpec(FLAGS_features));
  if (!spec.IsFitted()) {
    return Invalid(FLAGS_features +
                   " needs a first pass over the data: millrace-records fit --features=" +
                   FLAGS_features + " --out=FITTED FILES");
  }
  ASSIGN_OR_RETURN(auto features, io::EncoderPlan::Make(spec));
  return UseFeatures(features, options);
}

Result<InputOptions> TrainInput() {
  if (FLAGS_train.empty()) return Invalid("--train is missing: expected the training files");
  ASSIGN_OR_RETURN(InputOptions input, Input(FLAGS_train));
  if (FLAGS_batch_size > 0) input.batch_size = FLAGS_batch_size;
  input.epochs = FLAGS_epochs;
  input.seed = FLAGS_seed;
  if (FLAGS_order == "files") {
    std::sort(input.files.begin(), input.files.end());
    input.shuffle_capacity = input.min_after_dequeue = 0;
  } else {
    input.shuffle_capacity = FLAGS_shuffle_capacity;
    input.min_after_dequeue =
        FLAGS_min_after_dequeue > 0 ? FLAGS_min_after_dequeue : FLAGS_shuffle_capacity / 2;
  }
  input.cache_bytes = FLAGS_cache << 20;
  return input;
}

Result<InputOptions> TestInput() {
  if (FLAGS_test.empty()) return InputOptions{};
  ASSIGN_OR_RETURN(InputOptions input, Input(FLAGS_test));
  input.batch_size = FLAGS_test_batch_size;
  input.rows.check_names = false;  // the training files are checked
  // As in millrace-predict: a key that the model cannot have counts as a weight of 0.
  if (FLAGS_unknown_key == "ignore") input.rows.unknown_key = io::UnknownKey::kLeaveOut;
  input.shuffle_capacity = 0;
  return input;
}

// 0 for auto.
Result<double> LearningRate() {
  const std::string& text = FLAGS_learning_rate;
  if (text == "auto") return 0.0;
  double rate = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rate);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (whole && rate > 0 && std::isfinite(rate)) return rate;
  return Invalid("--learning_rate=" + text + ": expected a number above 0, or auto");
}

Result<UpdateOptions> Update() {
  UpdateOptions update;
  ASSIGN_OR_RETURN(update.rule, sparse::RuleFromName(FLAGS_optimizer));
  ASSIGN_OR_RETURN(update.decay, sparse::DecayFromName(FLAGS_decay));
  ASSIGN_OR_RETURN(update.rate, LearningRate());
  update.l1 = FLAGS_l1;
  update.l2 = FLAGS_l2;
  update.factor_l2 = FLAGS_factor_l2;
  update.ftrl_beta = FLAGS_ftrl_beta;
  update.adagrad_epsilon = FLAGS_adagrad_epsilon;
  update.adagrad_initial = FLAGS_adagrad_initial;
  return update;
}

Result<sparse::FactorShape> Factors() {
  sparse::FactorShape shape;
  ASSIGN_OR_RETURN(shape.kind, sparse::ModelKindFromName(FLAGS_model));
  shape.init = FLAGS_factor_init;
  shape.seed = FLAGS_seed;
  shape.admit =
      static_cast<uint32_t>(std::min<uint64_t>(FLAGS_admit_factors, sparse::kMaxAdmit + 1));
  if (shape.kind == sparse::ModelKind::kLr) return shape;
  const bool is_ffm = shape.kind == sparse::ModelKind::kFfm;
  const uint64_t usual = is_ffm ? sparse::kDefaultFfmFactors : sparse::kDefaultFmFactors;
  constexpr uint64_t kMost = ~uint32_t{0};
  shape.factors =
      static_cast<uint32_t>(std::min(IsGiven("factors") ? FLAGS_factors : usual, kMost));
  RETURN_IF_ERROR(shape.Validate());
  return shape;
}

// One metric decides both.
Result<trainer::EarlyStopRule> BestRule() {
  ASSIGN_OR_RETURN(const auto early_stop, trainer::ParseEarlyStop(FLAGS_early_stop));
  ASSIGN_OR_RETURN(const auto save_best, trainer::ParseSaveBest(FLAGS_save_best));
  if (!early_stop.enabled()) return save_best;
  if (save_best.enabled() && save_best.metric != early_stop.metric) {
    return Invalid("--save_best=" + save_best.metric + " and --early_stop=" + FLAGS_early_stop +
                   ": expected the same metric (--early_stop alone keeps the best model, too)");
  }
  return early_stop;
}

Status CheckFlags() {
  RETURN_IF_ERROR(CheckTrainingFlags());
  if (FLAGS_index_base != 0 && FLAGS_index_base != 1) {
    return Invalid("--index_base=" + std::to_string(FLAGS_index_base) + ": expected 0 or 1");
  }
  if (FLAGS_hash_bits < 0 || FLAGS_hash_bits > 64) {
    return Invalid("--hash_bits=" + std::to_string(FLAGS_hash_bits) + ": expected 0 to 64");
  }
  if (FLAGS_order == "files" && IsGiven("shuffle_capacity") && FLAGS_shuffle_capacity > 0) {
    return Invalid("--order=files keeps the rows as they stand: expected no --shuffle_capacity");
  }
  if (FLAGS_order == "shuffled" && IsGiven("order") && FLAGS_shuffle_capacity == 0) {
    return Invalid("--order=shuffled needs a buffer: expected --shuffle_capacity above 0");
  }
  if (!FLAGS_continue.empty() && !FLAGS_model_in.empty()) {
    return Invalid("--continue and --model_in: expected one of them");
  }
  const std::string& source = FLAGS_continue.empty() ? FLAGS_model_in : FLAGS_continue;
  if (!source.empty() && !FLAGS_resume && IsInside(source, FLAGS_run_dir)) {
    return Invalid(std::string(FLAGS_continue.empty() ? "--model_in=" : "--continue=") + source +
                   ": expected a run outside --run_dir=" + FLAGS_run_dir +
                   ", which the new run replaces");
  }
  if (!FLAGS_sweep.empty() && (FLAGS_resume || FLAGS_checkpoint_every > 0)) {
    return Invalid(
        "--sweep writes no checkpoints while it trains: expected no --resume and no "
        "--checkpoint_every");
  }
  if (FLAGS_dashboard > 65535) {
    return Invalid("--dashboard=" + std::to_string(FLAGS_dashboard) +
                   ": expected a port, 1 to 65535");
  }
  if (FLAGS_cache > (uint64_t{1} << 30)) {
    return Invalid("--cache=" + std::to_string(FLAGS_cache) + ": expected at most 2^30 megabytes");
  }
  return {};
}

// `update`: of all that the sweep leaves open.
Result<std::vector<trainer::SweepConfig>> Sweep(const UpdateOptions& update) {
  if (FLAGS_sweep.empty()) return std::vector<trainer::SweepConfig>();
  ASSIGN_OR_RETURN(auto configs, trainer::ParseSweep(FLAGS_sweep, update, FLAGS_seed));
  for (const auto& [name, value] : configs.front().options) {
    if (IsGiven(name.c_str())) {
      return Invalid("--" + name + " and --sweep=" + FLAGS_sweep + ": expected it in one of them");
    }
    const bool has_auto = std::any_of(configs.begin(), configs.end(),
                                      [](const auto& config) { return config.update.rate == 0; });
    if (name == "learning_rate" && has_auto && !FLAGS_continue.empty()) {
      return Invalid(
          "--sweep=" + FLAGS_sweep +
          ": learning_rate=auto: a run with --continue tries no rates; expected numbers");
    }
    if (name == "factor_l2" && FLAGS_model == "lr") {
      return Invalid("--sweep=" + FLAGS_sweep + ": factor_l2 belongs to --model=fm");
    }
    for (const auto& [prefix, rule] :
         {std::pair("ftrl_", sparse::Rule::kFtrl), std::pair("adagrad_", sparse::Rule::kAdaGrad)}) {
      if (!name.starts_with(prefix) || update.rule == rule) continue;
      return Invalid("--sweep=" + FLAGS_sweep + ": " + name + " belongs to --optimizer=" +
                     sparse::RuleName(rule) + ", found " + sparse::RuleName(update.rule));
    }
  }
  return configs;
}

Status CheckRemote(const TrainOptions& train) {
  std::vector<std::string> files = train.train.files;
  files.insert(files.end(), train.test.files.begin(), train.test.files.end());
  return tools::CheckRemoteFlags(files);
}

// The files are known, so auto is resolved.
Status CheckInputFlags(const TrainOptions& train) {
  std::vector<std::string> formats = {io::InputFormatName(train.train.format)};
  if (!train.test.files.empty() && train.test.format != train.train.format) {
    formats.push_back(io::InputFormatName(train.test.format));
  }
  return tools::CheckEffects(tools::WithTrainingEffects(LrSpec()), {{"format", formats}});
}

}  // namespace

const CommandSpec& LrSpec() {
  static const CommandSpec spec = tools::WithRemoteFlags(
      {.name = "millrace-lr",
       .job = "trains and evaluates click models: logistic regression, factorization machines",
       .groups = {{"Data",
                   {"train", "test", "format", "features", "num_features", "label_feature",
                    "index_feature", "value_feature", "weight_feature", "field_feature",
                    "num_fields", "positive_label", "index_base", "hash_bits", "vw_hash_all",
                    "unknown_key", "on_corrupt", "max_record_mb", "duckdb"},
                   {{"train", tools::InputFile()},
                    {"test", tools::InputFile()},
                    {"duckdb", File()},
                    {"features", File()},
                    {"format", OneOf({"auto", "tfrecord", "libsvm", "libffm", "vw", "criteo", "csv",
                                      "json", "table"})},
                    {"unknown_key", OneOf({"error", "ignore"})},
                    {"on_corrupt", OneOf({"fail", "skip"})}}},
                  {"Optimizer",
                   {"optimizer", "learning_rate", "normalize", "decay", "l1", "l2", "ftrl_beta",
                    "adagrad_epsilon", "adagrad_initial", "batch_size", "kernel", "sweep",
                    "sweep_halving", "sweep_models"},
                   {{"optimizer", OneOf({"sgd", "adagrad", "ftrl", "adam"})},
                    {"normalize", OneOf({"auto", "on", "off"})},
                    {"decay", OneOf({"constant", "sqrt"})},
                    {"kernel", OneOf({"auto", "native", "mkl", "plain"})}}},
                  {"Model",
                   {"model", "factors", "factor_l2", "factor_init", "admit_factors", "intercept"},
                   {{"model", OneOf({"lr", "fm", "ffm"})}}},
                  {"Schedule",
                   {"epochs", "max_examples", "eval_every", "test_batch_size", "early_stop",
                    "save_best", "seed", "order", "shuffle_capacity", "min_after_dequeue", "cache",
                    "threads", "hogwild"},
                   {{"save_best",
                     OneOf({"auc", "logloss", "ne", "accuracy", "f1", "precision", "recall"})},
                    {"order", OneOf({"shuffled", "files"})}}},
                  RunFlags(
                      {"",
                       {"continue", "save_state", "model_format", "dashboard"},
                       {{"continue", File()}, {"model_format", OneOf({"binary", "text", "npy"})}}}),
                  WorkerFlags()},
       .always = {"model",        "train",         "test",       "format",           "features",
                  "on_corrupt",   "max_record_mb", "optimizer",  "learning_rate",    "normalize",
                  "l2",           "intercept",     "batch_size", "kernel",           "epochs",
                  "max_examples", "seed",          "order",      "shuffle_capacity", "threads",
                  "continue"},
       .needs =
           {{{"factors", "factor_l2", "factor_init", "admit_factors"}, {"model"}, {"fm", "ffm"}},
            {{"num_fields", "field_feature"}, {"model"}, {"ffm"}},
            {{"num_fields"}, {"format"}, {"tfrecord", "libffm"}},
            {{"hogwild"}, {"model"}, {"lr"}},
            {{"label_feature", "index_feature", "value_feature", "weight_feature", "field_feature"},
             {"format"},
             {"tfrecord"}},
            {{"positive_label"}, {"format"}, {"tfrecord", "libsvm", "libffm", "vw", "criteo"}},
            {{"unknown_key"}, {"test"}},
            {{"unknown_key"}, {"num_features"}},
            {{"num_features", "label_feature", "index_feature", "value_feature", "weight_feature",
              "field_feature", "num_fields", "positive_label", "index_base", "hash_bits",
              "vw_hash_all", "unknown_key"},
             {"features"},
             {""}},
            {{"duckdb"}, {"format"}, {"table"}},
            {{"index_base"}, {"format"}, {"libsvm", "libffm"}},
            {{"hash_bits"}, {"format"}, {"vw", "criteo"}},
            {{"vw_hash_all"}, {"format"}, {"vw"}},
            {{"decay"}, {"optimizer"}, {"sgd", "adam"}},
            {{"l1", "ftrl_beta"}, {"optimizer"}, {"ftrl"}},
            {{"adagrad_epsilon", "adagrad_initial"}, {"optimizer"}, {"adagrad"}},
            {{"hogwild"}, {"optimizer"}, {"sgd"}},
            {{"hogwild"}, {"mode"}, {"single"}},
            {{"sweep"}, {"mode"}, {"single"}},
            {{"sweep_halving", "sweep_models"}, {"sweep"}},
            {{"sweep_models"}, {"run_dir"}},
            {{"hogwild", "save_best"}, {"sweep"}, {""}},
            {{"eval_every", "test_batch_size", "early_stop", "save_best"}, {"test"}},
            {{"early_stop", "save_best"}, {"eval_every"}},
            {{"save_best"}, {"run_dir"}},
            {{"min_after_dequeue"}, {"shuffle_capacity"}},
            {{"min_after_dequeue"}, {"order"}, {"shuffled"}},
            {.flags = {"cache"},
             .with = {"epochs"},
             .except = {"0", "1"},
             .text = "--epochs of 2 or more"},
            {{"model_format"}, {"model_out", "run_dir"}},
            {{"dashboard", "save_state"}, {"run_dir"}}},
       .examples = {
           "millrace-lr --train='data/train-*' --test='data/test-*' --num_features=33762578 "
           "--run_dir=runs/1",
           "millrace-lr --train=a9a --test=a9a.t --format=libsvm --num_features=124 --epochs=5",
           "millrace-lr --model=fm --train='data/train-*' --num_features=33762578 --run_dir=runs/2",
           "millrace-lr --train='rows-*.csv' --features=spec.json --run_dir=runs/1",
           "millrace-lr --train=\"sql:SELECT * FROM 'day-*/*.parquet' ORDER BY ts\" --order=files "
           "--features=spec.json",
           "millrace-lr --train='data/train-*' --test='data/test-*' --num_features=33762578 "
           "--run_dir=runs/3 --sweep='learning_rate=0.05,0.1,0.2;l1=0,1'",
           "millrace-lr --train='data/train-*' --num_features=33762578 --run_dir=runs/1 --resume",
           "millrace-lr --train='day2/*' --order=files --continue=runs/1 --run_dir=runs/2",
           "millrace-launch --deploy_mode=cluster2 -- millrace-lr --mode=sync "
           "--train='data/train-*' --num_features=33762578"}});
  return spec;
}

Result<LrOptions> LrOptionsFromFlags() {
  RETURN_IF_ERROR(CheckFlags());
  LrOptions options;
  ASSIGN_OR_RETURN(options.train.train, TrainInput());
  ASSIGN_OR_RETURN(options.train.test, TestInput());
  RETURN_IF_ERROR(CheckRemote(options.train));
  RETURN_IF_ERROR(CheckInputFlags(options.train));
  ASSIGN_OR_RETURN(options.train.update, Update());
  ASSIGN_OR_RETURN(options.train.early_stop, BestRule());
  ASSIGN_OR_RETURN(options.model_format, trainer::ModelFormatFromName(FLAGS_model_format));
  ASSIGN_OR_RETURN(options.session, SessionFromFlags());
  ASSIGN_OR_RETURN(options.train.normalize, trainer::NormalizeFromName(FLAGS_normalize));
  options.train.auto_batch_size = FLAGS_batch_size == 0;
  options.train.shape = {.num_features = FLAGS_num_features, .intercept = FLAGS_intercept};
  ASSIGN_OR_RETURN(options.train.shape.factors, Factors());
  RETURN_IF_ERROR(TakeFeatures(options.train));
  if (FLAGS_continue.empty()) RETURN_IF_ERROR(TakeFields(FLAGS_num_fields, options.train));
  options.train.kernel = FLAGS_kernel;
  options.train.max_examples = FLAGS_max_examples;
  options.train.hogwild = FLAGS_hogwild;
  options.train.eval_every = FLAGS_eval_every;
  options.train.model_in = FLAGS_model_in;
  options.train.continue_from = FLAGS_continue;
  options.train.checkpoint_every = FLAGS_checkpoint_every;
  options.train.resume = FLAGS_resume;
  options.run = RunFolderFromFlags();
  if (!FLAGS_run_dir.empty()) options.train.checkpoints = FLAGS_run_dir + "/checkpoints";
  ASSIGN_OR_RETURN(options.profile, ProfileFromFlags());
  options.dashboard_port = static_cast<uint16_t>(FLAGS_dashboard);
  options.model_out = FLAGS_model_out;
  options.save_state = FLAGS_save_state && !FLAGS_run_dir.empty();
  RETURN_IF_ERROR(TakeEarlierOptions(options));
  SetKeyGroups(options.train.train.rows.features.get(), options.train.update);
  RETURN_IF_ERROR(options.train.Validate());
  ASSIGN_OR_RETURN(options.sweep, Sweep(options.train.update));
  if (!options.sweep.empty() && !options.train.update.key_groups.empty()) {
    return Invalid(
        "--sweep: fields of the feature spec have an l1, l2 or rate of their own: expected a spec "
        "without them");
  }
  options.sweep_halving = FLAGS_sweep_halving;
  options.sweep_models = FLAGS_sweep_models;
  return options;
}

std::vector<std::pair<std::string, std::string>> LrFlagValues() { return FlagValues(LrSpec()); }

}  // namespace millrace::lr
