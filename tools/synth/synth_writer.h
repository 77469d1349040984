// Turns the hidden model into files: rows drawn, encoded and written, shard by shard, by several
// threads.
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
  bool values = true;  // write the values, all 1.0; a reader takes them as 1 where there are none
  size_t threads = 1;
  io::WriterOptions writer;
  io::FeatureNames names;
};

struct SynthResult {
  std::vector<std::string> train_files, test_files;
  uint64_t train_positives = 0;
  uint64_t bytes = 0;  // framed, before compression
  BayesScore test;
};

// The shards of the training part hold consecutive rows, as do those of the test part. An existing
// file is replaced when its successor is complete. The first failure or an interrupt stops all
// threads.
Result<SynthResult> WriteSynth(const SynthModel& model, const SynthFiles& files);

}  // namespace millrace::synth
