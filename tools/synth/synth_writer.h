// SPDX-License-Identifier: Apache-2.0
// Writes the rows of the hidden model to files, one shard per thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "io/example/example_encoder.h"
#include "io/record/record_writer.h"
#include "tools/synth/bayes_score.h"
#include "tools/synth/synth_model.h"

namespace millrace::synth {

struct SynthFiles {
  std::string folder;
  uint64_t rows = 2'000'000;
  uint64_t test_rows = 200'000;
  uint64_t shards = 8;
  uint64_t test_shards = 1;
  bool values = true;  // write the values, all 1.0; readers use 1 for missing values
  size_t threads = 1;
  io::WriterOptions writer;
  io::FeatureNames names;
};

struct SynthResult {
  std::vector<std::string> train_files, test_files;
  uint64_t train_positives = 0;
  uint64_t bytes = 0;  // framed, before compression
  BayesScore test;
  BayesScore test_linear;  // of the linear part alone; empty without interactions
};

// A shard has consecutive rows of the training or the test part. An existing file is replaced when
// the new one is complete. The first failure or an interrupt stops all threads.
Result<SynthResult> WriteSynth(const SynthModel& model, const SynthFiles& files);

}  // namespace millrace::synth
