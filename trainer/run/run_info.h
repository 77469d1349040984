// SPDX-License-Identifier: Apache-2.0
// The content of run.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/rows/row_decoder.h"
#include "trainer/run/binary_metrics.h"
#include "trainer/run/host_info.h"

namespace millrace::trainer {

enum class RunStatus { kRunning, kFinished, kFailed, kInterrupted };

// "running", "finished", "failed", "interrupted"
std::string_view RunStatusName(RunStatus status);

// A learning rate that was tried on the first rows.
struct RateTrial {
  double rate = 0;
  double loss = 0;  // progressive or, of several passes, held-out; not finite: the trial diverged
};

// What a run of a sparse model decided before it started.
struct StartChoice {
  double rate = 0;
  bool normalize = false;
  bool raw_values = false;  // see UpdateOptions
  std::vector<io::ValueCenter> centers = {};
  double intercept = 0;  // of the first step
  size_t batch_size = 0;
  uint64_t rows = 0;                   // that the choice is based on; 0: none were read
  uint64_t passes = 1;                 // of each trial over these rows
  std::vector<RateTrial> trials = {};  // by rate; empty: the rate was given, or see `note`
  std::string note = {};               // why no rate was tried although none was given
};

struct RunInfo {
  std::string program;
  std::string version;
  std::vector<std::pair<std::string, std::string>> flags;
  uint64_t seed = 0;
  HostInfo host;
  int64_t pid = 0;
  double start_time_s = 0;                    // since 1970
  std::optional<uint64_t> resumed_step = {};  // of the checkpoint that the run resumed from
  std::optional<StartChoice> start = {};
};

// The evaluation whose model is kept as the best.
struct BestEvaluation {
  std::string metric;  // by which it is the best
  uint64_t step = 0, examples = 0;
  std::string metrics;  // MetricsJson
};

struct RunEnd {
  RunStatus status = RunStatus::kFinished;
  std::string message = {};  // why it failed or was interrupted
  double end_time_s = 0;     // since 1970
  uint64_t steps = 0;        // in total
  std::vector<NamedValue> metrics = {};
  std::optional<BestEvaluation> best = {};
  std::vector<std::string> warnings = {};  // one line each
};

struct FlagChange {
  std::string name, before, now;
};

// `end` absent: the run is running.
std::string RunJson(const RunInfo& info, const std::optional<RunEnd>& end);

// The status in a text that RunJson made; empty for any other text.
std::string StatusInRunJson(std::string_view json);
// The steps at the run's end in such a text; 0 where there are none.
uint64_t StepsInRunJson(std::string_view json);
// The `flags` that have another value in such a text.
std::vector<FlagChange> ChangedFlags(std::string_view json,
                                     const std::vector<std::pair<std::string, std::string>>& flags);

}  // namespace millrace::trainer
