// What limits the speed of a run, with the numbers that prove it.
#pragma once

#include <string>
#include <vector>

#include "tools/report/run_data.h"
#include "tools/report/step_breakdown.h"

namespace millrace::report {

struct Diagnosis {
  // "input", "compute", "network", "server", "barrier", "evaluation", "checkpoint"; "unknown"
  // without a trace that has steps.
  std::string bottleneck = "unknown";
  // "worker-2", if the bottleneck is "barrier" and most waits there are for one worker.
  std::string straggler;
  double share = 0;            // of the time, that the bottleneck takes
  double speedup_without = 1;  // at most this, if the bottleneck took no time
  std::string sentence;
  std::vector<std::string> evidence;  // one line each
  StepBreakdown breakdown;            // the one that `share` is about
  std::vector<StepBreakdown> workers;
};

// Limits of the machine that the user states; 0: not stated.
struct Limits {
  double network_bytes_per_s = 0;
  double disk_bytes_per_s = 0;
};

Diagnosis DiagnoseRun(const RunData& run, const Limits& limits = {});

}  // namespace millrace::report
