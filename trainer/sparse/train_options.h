// SPDX-License-Identifier: Apache-2.0
// The options of a training run of sparse logistic regression.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "io/base/status.h"
#include "io/queue/input_options.h"
#include "sparse/local_store.h"
#include "sparse/update_options.h"
#include "trainer/loop/early_stop.h"

namespace millrace::trainer {

// Whether to set UpdateOptions::normalize.
enum class Normalize {
  kAuto,  // if the first rows have values other than 1, or cannot be read twice
  kOn,
  kOff,
};
// Accepts "auto", "on", "off".
Result<Normalize> NormalizeFromName(std::string_view name);

struct TrainOptions {
  io::InputOptions train;
  io::InputOptions test = {};  // without files: no evaluation
  sparse::ModelShape shape = {};
  sparse::UpdateOptions update = {};
  // What ChooseStart decides on, in addition to a rate of 0; nothing else reads these two.
  Normalize normalize = Normalize::kAuto;
  bool auto_batch_size = false;
  double intercept = 0;  // of a model that starts from nothing
  // "auto": the fastest. "native", "mkl", "plain": compacted batches with those kernels.
  std::string kernel = "auto";
  // Threads that train without locks (dense-index table with SGD only). 0 and 1: one thread, which
  // is deterministic.
  uint64_t hogwild = 0;
  uint64_t max_examples = 0;      // of all workers together; 0: all epochs
  uint64_t eval_every = 0;        // training examples between evaluations; 0: at the end only
  EarlyStopRule early_stop = {};  // also which evaluation is the best
  std::string model_in;           // warm start: the weights of a model
  std::string continue_from;      // an earlier run, with its optimizer state: see FindEarlierRun
  std::string checkpoints;        // folder; empty: none are written
  uint64_t checkpoint_every = 0;  // training examples; 0: only when stopped
  bool resume = false;
  uint64_t test_cache_bytes = 64 << 20;

  Status Validate() const;
};

// 16 hexadecimal digits that identify a feature spec.
std::string SpecDigest(const io::FeatureSpec& spec);

// The options that decide which rows come next and what they mean. They must not change when a run
// is resumed; the number of processes may. Words "name=value".
std::string OptionsDigest(const TrainOptions& options);

}  // namespace millrace::trainer
