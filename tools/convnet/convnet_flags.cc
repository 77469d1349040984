// SPDX-License-Identifier: Apache-2.0
#include "tools/convnet/convnet_flags.h"

#include <gflags/gflags.h>

#include <algorithm>
#include <charconv>
#include <thread>

#include "tools/common/training_flags.h"

using millrace::convnets::ImageOptions;
using millrace::convnets::NetTrainOptions;
using millrace::sparse::DenseOptions;

static const NetTrainOptions kDefaults;

DEFINE_string(net, kDefaults.net.name, "softmax, lenet or alexnet");
DEFINE_uint64(num_classes, 0, "0: 10 for softmax and lenet, 1000 for alexnet");
DEFINE_string(init, "he", "initial weights: he, xavier, or normal (N(0,1))");
DEFINE_string(
    engine, kDefaults.engine,
    "auto (the fastest), lanes (built-in kernels, for small nets), onednn, or plain (the slow "
    "reference)");
DEFINE_string(graph, "",
              "write the graph of the net in DOT to this file and exit; - is standard output");

DEFINE_string(data, "files", "files, or synthetic: generated patterns with noise");
DEFINE_string(train, "",
              "training images: two IDX files (images,labels), or TFRecords; names, globs, comma "
              "lists");
DEFINE_string(test, "", "test images, in the same form; without them the net is not evaluated");
DEFINE_uint64(synthetic_images, 10000, "with --data=synthetic: images in the training set");
DEFINE_int64(label_offset, ImageOptions{}.label_offset,
             "subtracted from every label (1 if the records count classes from 1)");
DEFINE_int32(resize, -1,
             "shorter side of an encoded image before cropping; 0: resize to the net's "
             "input; -1: 256 for alexnet, else 0");
DEFINE_bool(augment, true, "crop at random and mirror (with --resize), only in training");
DEFINE_string(mean, "", "subtracted from values of 0 to 255: one number, or one per channel");
DEFINE_double(scale, 0, "divisor of the values; 0: 255, or 58 with --mean");
DEFINE_double(memory_gb, ImageOptions{}.memory_gb,
              "gigabytes for the images of --train, and for those of --test: more is an error");

DEFINE_string(optimizer, "",
              "sgd, momentum or adam; empty: sgd for softmax, adam for lenet, "
              "momentum for alexnet");
DEFINE_double(learning_rate, 0,
              "in the first step; 0: sgd 0.1, momentum 0.01, adam 0.001 (0.003 for lenet)");
DEFINE_string(
    schedule, "",
    "of the learning rate: linear (to 0 at the end of the run), steps (see decay_every) or "
    "constant; empty: steps with decay_every, else linear");
DEFINE_double(momentum, DenseOptions{}.momentum, "of the optimizer momentum");
DEFINE_double(weight_decay, DenseOptions{}.weight_decay, "L2 strength");
DEFINE_uint64(decay_every, DenseOptions{}.decay_every,
              "steps after which the rate is multiplied by decay_factor; 0: never");
DEFINE_double(decay_factor, DenseOptions{}.decay_factor, "see decay_every");
DEFINE_uint64(batch_size, kDefaults.batch_size, "images per step");

DEFINE_uint64(epochs, kDefaults.epochs, "passes over the training images");
DEFINE_uint64(max_examples, kDefaults.max_examples,
              "stop after this number of training images; 0: after the epochs");
DEFINE_uint64(eval_every, kDefaults.eval_every,
              "training images between evaluations; 0: evaluate after each epoch");
DEFINE_string(save_best, "",
              "accuracy or logloss: keep the model of the best evaluation as "
              "run_dir/model/best.bin, beside the last one, model.bin");
DEFINE_uint64(seed, kDefaults.seed, "determines initial weights, order, crops and dropout");
DEFINE_uint64(threads, 0, "compute threads; 0: one per core");
DECLARE_string(run_dir);
DECLARE_bool(resume);
DECLARE_string(model_in);
DECLARE_string(model_out);
DECLARE_uint64(checkpoint_every);
DEFINE_uint64(input_threads, kDefaults.input_threads, "threads that decode and prefetch images");

namespace millrace::convnet {
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

// Chosen on 10,000 images held out of MNIST's training set: docs/convnets.md.
constexpr double kLenetAdamRate = 0.003;

Status CheckFlags() {
  RETURN_IF_ERROR(CheckTrainingFlags());
  const bool synthetic = FLAGS_data == "synthetic";
  if (!synthetic && FLAGS_train.empty() && FLAGS_graph.empty()) {
    return Invalid("--train is missing: expected the training images, or --data=synthetic");
  }
  if (FLAGS_scale < 0) return Invalid("--scale: expected a number of at least 0");
  if (!(FLAGS_memory_gb > 0 && FLAGS_memory_gb <= 1e6))
    return Invalid("--memory_gb: expected a number above 0 and up to 1000000");
  return {};
}

Result<std::vector<float>> Mean(size_t channels) {
  std::vector<float> mean;
  std::string_view rest = FLAGS_mean;
  while (!rest.empty()) {
    float value = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    const auto used = static_cast<size_t>(end - rest.data());
    if (error != std::errc() || (used < rest.size() && rest[used] != ',')) {
      return Invalid("--mean=" + FLAGS_mean + ": expected numbers with commas between them");
    }
    mean.push_back(value);
    rest.remove_prefix(std::min(rest.size(), used + 1));
  }
  if (mean.size() > 1 && mean.size() != channels) {
    return Invalid("--mean=" + FLAGS_mean + ": expected 1 number" +
                   (channels > 1 ? ", or " + std::to_string(channels) : "") + ", found " +
                   std::to_string(mean.size()));
  }
  return mean;
}

Result<ImageOptions> Images(const convnets::NetSpec& net) {
  ImageOptions images;
  images.shape = net.input;
  images.num_classes = net.classes();
  images.label_offset = FLAGS_label_offset;
  images.augment = FLAGS_augment;
  images.memory_gb = FLAGS_memory_gb;
  ASSIGN_OR_RETURN(images.mean, Mean(net.input.channels));
  images.scale = static_cast<float>(FLAGS_scale > 0 ? FLAGS_scale : images.mean.empty() ? 255 : 58);
  const int resize = FLAGS_resize >= 0 ? FLAGS_resize : net.name == "alexnet" ? 256 : 0;
  images.resize = static_cast<size_t>(resize);
  if (images.resize > 0 && images.resize < std::max(net.input.height, net.input.width)) {
    return Invalid("--resize=" + std::to_string(resize) + ": expected at least the net's input, " +
                   convnets::ShapeText(net.input));
  }
  return images;
}

std::string DefaultOptimizer() {
  if (FLAGS_net == "softmax") return "sgd";
  return FLAGS_net == "lenet" ? "adam" : "momentum";
}

Result<DenseOptions> Update() {
  DenseOptions update;
  ASSIGN_OR_RETURN(
      update.rule,
      sparse::DenseRuleFromName(FLAGS_optimizer.empty() ? DefaultOptimizer() : FLAGS_optimizer));
  update.rate = FLAGS_learning_rate;
  if (update.rate == 0 && FLAGS_net == "lenet" && update.rule == sparse::DenseRule::kAdam) {
    update.rate = kLenetAdamRate;
  }
  update.momentum = FLAGS_momentum;
  update.weight_decay = FLAGS_weight_decay;
  update.decay_every = FLAGS_decay_every;
  update.decay_factor = FLAGS_decay_factor;
  return update;
}

Result<bool> HasLinearRate() {
  if (FLAGS_schedule.empty()) return FLAGS_decay_every == 0;
  if (FLAGS_schedule == "linear" || FLAGS_schedule == "constant") {
    if (FLAGS_decay_every == 0) return FLAGS_schedule == "linear";
    return Invalid("--schedule=" + FLAGS_schedule + ": expected no --decay_every with it");
  }
  if (FLAGS_decay_every == 0) return Invalid("--schedule=steps: expected --decay_every with it");
  return false;
}

Result<std::optional<convnets::ServerOptions>> Job(const convnets::NetTrainOptions& train) {
  ASSIGN_OR_RETURN(const std::optional<ps::SessionOptions> session, SessionFromFlags());
  if (!session) return std::optional<convnets::ServerOptions>();
  convnets::ServerOptions job{*session};
  job.resume = FLAGS_resume;
  job.checkpoints = train.checkpoints;
  job.config.dense = train.update;
  job.config.data = train.net.name + ", batch_size " + std::to_string(train.batch_size) +
                    ", seed " + std::to_string(train.seed);
  return std::optional(std::move(job));
}

// --graph trains nothing: of the flags that are in the spec so far only those of the net matter.
CommandSpec WithGraphEffects(CommandSpec spec) {
  tools::Needs training = {{}, {"graph"}, {""}};
  const auto add = [&](const std::vector<std::string>& flags) {
    for (const std::string& flag : flags) {
      if (flag != "net" && flag != "num_classes" && flag != "graph") training.flags.push_back(flag);
    }
  };
  add(spec.always);
  for (const tools::Needs& needs : spec.needs) add(needs.flags);
  spec.needs.insert(spec.needs.begin(), std::move(training));
  return spec;
}

}  // namespace

const CommandSpec& ConvnetSpec() {
  static const CommandSpec spec = {
      .name = "millrace-convnet",
      .job = "trains and evaluates softmax regression, LeNet and AlexNet on images",
      .groups = {{"Net",
                  {"net", "num_classes", "init", "engine", "graph"},
                  {{"net", OneOf({"softmax", "lenet", "alexnet"})},
                   {"init", OneOf({"he", "xavier", "normal"})},
                   {"engine", OneOf({"auto", "lanes", "onednn", "plain"})},
                   {"graph", File()}}},
                 {"Data",
                  {"data", "train", "test", "synthetic_images", "label_offset", "resize", "augment",
                   "mean", "scale", "memory_gb"},
                  {{"data", OneOf({"files", "synthetic"})}, {"train", File()}, {"test", File()}}},
                 {"Optimizer",
                  {"optimizer", "learning_rate", "schedule", "decay_every", "decay_factor",
                   "momentum", "weight_decay", "batch_size"},
                  {{"optimizer", OneOf({"sgd", "momentum", "adam"})},
                   {"schedule", OneOf({"linear", "steps", "constant"})}}},
                 {"Schedule",
                  {"epochs", "max_examples", "eval_every", "save_best", "seed", "threads",
                   "input_threads"},
                  {{"save_best", OneOf({"accuracy", "logloss"})}}},
                 RunFlags({}),
                 WorkerFlags()},
      .always = {"net", "num_classes", "engine", "graph", "data", "optimizer", "learning_rate",
                 "schedule", "decay_every", "weight_decay", "batch_size", "epochs", "max_examples",
                 "seed", "threads"},
      .needs = {{{"train", "test", "label_offset", "resize", "mean", "scale", "memory_gb",
                  "input_threads"},
                 {"data"},
                 {"files"}},
                {{"synthetic_images"}, {"data"}, {"synthetic"}},
                {{"augment"}, {"resize"}},
                {{"init"}, {"model_in"}, {""}},
                {{"momentum"}, {"optimizer"}, {"momentum"}},
                {{"decay_factor"}, {"decay_every"}},
                {{"eval_every", "save_best"}, {"test"}},
                {{"save_best"}, {"run_dir"}}},
      .examples = {
          "millrace-convnet --net=lenet "
          "--train=data/mnist/train-images-idx3-ubyte,data/mnist/train-labels-idx1-ubyte "
          "--test=data/mnist/t10k-images-idx3-ubyte,data/mnist/t10k-labels-idx1-ubyte --epochs=6 "
          "--run_dir=runs/lenet",
          "millrace-convnet --net=alexnet --train='train-*.tfrecord' --test='val-*.tfrecord' "
          "--mean=123.7,116.8,103.9 --batch_size=128 --run_dir=runs/alexnet",
          "millrace-convnet --net=alexnet --data=synthetic --num_classes=10 --batch_size=64 "
          "--max_examples=640",
          "millrace-convnet --net=lenet --graph=lenet.dot",
          "millrace-launch --deploy_mode=cluster2 -- millrace-convnet --mode=sync --net=lenet "
          "--train=IMAGES,LABELS --test=IMAGES,LABELS --epochs=6 --run_dir=runs/lenet3"}};
  return spec;
}

Result<ConvnetOptions> ConvnetOptionsFromFlags() {
  RETURN_IF_ERROR(CheckFlags());
  ConvnetOptions options;
  convnets::NetTrainOptions& train = options.train;
  train.net = {.name = FLAGS_net, .num_classes = FLAGS_num_classes};
  ASSIGN_OR_RETURN(const convnets::NetSpec net, convnets::MakeNet(train.net));
  ASSIGN_OR_RETURN(train.init, convnets::InitFromName(FLAGS_init));
  ASSIGN_OR_RETURN(train.update, Update());
  ASSIGN_OR_RETURN(options.linear_rate, HasLinearRate());
  ASSIGN_OR_RETURN(options.images, Images(net));
  RETURN_IF_ERROR(tools::CheckEffects(
      WithGraphEffects(tools::WithTrainingEffects(ConvnetSpec())),
      {{"optimizer", {sparse::DenseRuleName(train.update.rule)}},
       {"resize", {FLAGS_data == "files" ? std::to_string(options.images.resize) : "0"}},
       {"test", {FLAGS_data == "synthetic" ? "synthetic" : FLAGS_test}}}));
  train.engine = FLAGS_engine;
  train.batch_size = FLAGS_batch_size;
  train.epochs = FLAGS_epochs;
  train.max_examples = FLAGS_max_examples;
  train.eval_every = FLAGS_eval_every;
  ASSIGN_OR_RETURN(train.early_stop, trainer::ParseSaveBest(FLAGS_save_best));
  train.threads =
      FLAGS_threads > 0 ? FLAGS_threads : std::max<size_t>(1, std::thread::hardware_concurrency());
  train.input_threads = FLAGS_input_threads;
  train.seed = FLAGS_seed;
  train.model_in = FLAGS_model_in;
  train.checkpoint_every = FLAGS_checkpoint_every;
  train.resume = FLAGS_resume;
  if (!FLAGS_run_dir.empty()) train.checkpoints = FLAGS_run_dir + "/checkpoints";
  options.train_files = FLAGS_train;
  options.test_files = FLAGS_test;
  options.synthetic = FLAGS_data == "synthetic";
  options.synthetic_images = FLAGS_synthetic_images;
  options.run = RunFolderFromFlags();
  ASSIGN_OR_RETURN(options.profile, ProfileFromFlags());
  ASSIGN_OR_RETURN(options.job, Job(train));
  if (options.job) {
    train.worker = options.job->worker;
    train.workers = options.job->config.num_workers;
  }
  options.model_out = FLAGS_model_out;
  options.graph = FLAGS_graph;
  RETURN_IF_ERROR(train.Validate());
  return options;
}

std::vector<std::pair<std::string, std::string>> ConvnetFlagValues() {
  return FlagValues(ConvnetSpec());
}

}  // namespace millrace::convnet
