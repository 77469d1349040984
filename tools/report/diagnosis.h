// What a run is bound by, with the numbers that prove it.
#pragma once

#include <string>
#include <vector>

#include "tools/report/run_data.h"
#include "tools/report/step_breakdown.h"

namespace millrace::tools {

struct Verdict {
  // "input", "compute", "network", "server", "barrier", "evaluation", "checkpoint"; "unknown"
  // without a trace that has steps.
  std::string bottleneck = "unknown";
  std::string straggler;  // "worker-2", where bottleneck is "barrier" and one is waited for most
  double share = 0;       // of the time
  double speedup_without = 1;  // at most
  std::string sentence;
  std::vector<std::string> evidence;  // a line each
  StepSplit split;                    // that the shares are of
  std::vector<StepSplit> workers;
};

// Stated limits; 0: what the system says, or none.
struct Limits {
  double network_bytes_per_s = 0;
  double disk_bytes_per_s = 0;
};

Verdict JudgeRun(const RunData& run, const Limits& limits = {});

// The split of each worker as a table, a row for each part.
std::string SplitText(const Verdict& verdict);

}  // namespace millrace::tools
