// SPDX-License-Identifier: Apache-2.0
// The content of run.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/run/binary_metrics.h"
#include "trainer/run/host_info.h"

namespace millrace::trainer {

enum class RunStatus { kRunning, kFinished, kFailed, kInterrupted };

// "running", "finished", "failed", "interrupted"
std::string_view RunStatusName(RunStatus status);

struct RunInfo {
  std::string program;
  std::string version;
  std::vector<std::pair<std::string, std::string>> flags;
  uint64_t seed = 0;
  HostInfo host;
  int64_t pid = 0;
  double start_time_s = 0;                    // since 1970
  std::optional<uint64_t> resumed_step = {};  // of the checkpoint that the run resumed from
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
