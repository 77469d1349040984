// SPDX-License-Identifier: Apache-2.0
#include "trainer/sparse/train_options.h"

#include <cstdio>

#include "io/base/string_hash.h"
#include "io/state/state_fields.h"
#include "sparse/kernels.h"

namespace millrace::trainer {

Result<Normalize> NormalizeFromName(std::string_view name) {
  if (name == "auto") return Normalize::kAuto;
  if (name == "on") return Normalize::kOn;
  if (name == "off") return Normalize::kOff;
  return Invalid("normalize: expected auto, on or off, found '" + std::string(name) + "'");
}

Status TrainOptions::Validate() const {
  RETURN_IF_ERROR(train.Validate());
  if (!test.files.empty()) RETURN_IF_ERROR(test.Validate());
  RETURN_IF_ERROR(update.Validate());
  RETURN_IF_ERROR(sparse::KernelsByName(kernel).status());
  const bool plain_sgd = update.rule == sparse::Rule::kSgd && update.l2 == 0;
  if (hogwild > 1 && (!plain_sgd || io::NeedsWideKeys(shape.num_features) || kernel != "auto")) {
    return Invalid(
        "hogwild: expected optimizer sgd without l2, num_features up to 2^32 and kernel auto");
  }
  if (hogwild > 1 && (update.normalize || normalize == Normalize::kOn)) {
    return Invalid("hogwild: expected normalize = off, found on");
  }
  if (hogwild > 1 && !update.key_groups.empty()) {
    return Invalid("hogwild: expected a feature spec without l1, l2 and rate of fields");
  }
  RETURN_IF_ERROR(shape.factors.Validate());
  if (hogwild > 1 && shape.factors.kind != sparse::ModelKind::kLr) {
    return Invalid(std::string("hogwild: expected model lr, found ") +
                   sparse::ModelKindName(shape.factors.kind));
  }
  if (hogwild > 256)
    return Invalid("hogwild: expected at most 256 threads, found " + std::to_string(hogwild));
  if (test.files.empty() && eval_every > 0) {
    return Invalid("eval_every needs test data: expected test files, found none");
  }
  const std::string best = early_stop.patience > 0 ? "early_stop" : "save_best";
  if (test.files.empty() && early_stop.enabled()) {
    return Invalid(best + " needs test data: expected test files, found none");
  }
  if (early_stop.enabled() && eval_every == 0) {
    return Invalid(best +
                   " compares evaluations: expected eval_every, the training examples "
                   "between two, found none");
  }
  if (checkpoint_every > 0 && checkpoints.empty()) {
    return Invalid("checkpoint_every needs a folder for checkpoints: expected run_dir, found none");
  }
  if (!model_in.empty() && !continue_from.empty()) {
    return Invalid(
        "continue takes weights and optimizer state of an earlier run, model_in the weights alone: "
        "expected one of them");
  }
  if (resume && checkpoints.empty())
    return Invalid("resume needs a folder with checkpoints: expected run_dir, found none");
  return {};
}

std::string SpecDigest(const io::FeatureSpec& spec) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx",
                static_cast<unsigned long long>(io::HashString(spec.ToJson())));
  return text;
}

std::string OptionsDigest(const TrainOptions& options) {
  const io::InputOptions& in = options.train;
  const auto text = [](const char* name, uint64_t value) {
    return std::string(name) + std::to_string(value);
  };
  return text("batch_size=", in.batch_size) + text(" seed=", in.seed) +
         text(" shuffle_capacity=", in.shuffle_capacity) +
         text(" min_after_dequeue=", in.min_after_dequeue) + text(" interleave=", in.interleave) +
         text(" block_bytes=", in.block_bytes) + " format=" + io::InputFormatName(in.format) +
         text(" index_base=", static_cast<uint64_t>(in.rows.index_base)) +
         text(" hash_bits=", static_cast<uint64_t>(in.rows.hash_bits)) +
         text(" hash_all=", in.rows.hash_all ? 1 : 0) +
         (in.rows.positive_label ? " positive_label=" + io::NumberText(*in.rows.positive_label)
                                 : "") +
         (in.rows.features ? " spec=" + SpecDigest(in.rows.features->spec())
                           : " features=" + in.rows.names.label + "," + in.rows.names.index + "," +
                                 in.rows.names.value + "," + in.rows.names.weight) +
         (in.rows.num_fields > 0
              ? text(" num_fields=", in.rows.num_fields) + " field=" + in.rows.names.field
              : "");
}

}  // namespace millrace::trainer
