// Which part of a step takes the most time, and how long a run would take without it.
#pragma once

#include <string>
#include <vector>

#include "tools/report/step_breakdown.h"

namespace millrace::report {

struct Bottleneck {
  // "input", "compute", "network", "server", "barrier", "evaluation", "checkpoint"
  const char* name;
  double seconds;
};

// The part that takes the most time.
Bottleneck LargestPart(const StepBreakdown& breakdown);

// A server's work on requests after the workers' warm-up.
struct ServerLoad {
  std::string process;
  double busy_s = 0;   // inside requests, without barriers
  double work_s = 0;   // the part of busy_s inside ops; the rest waits for locks, requests, a core
  double total_s = 0;  // from the first request to the end of the last
  uint64_t requests = 0;
};
std::vector<ServerLoad> ServerLoads(const RunData& run);

// The share of the servers' busy time that goes into ops. 1 without traces of servers.
double ServerWorkShare(const std::vector<ServerLoad>& servers);

// Below this share a slow server is one that waits: without the waiting it still has its work.
inline constexpr double kServerWorks = 0.5;

// The seconds that `breakdown`, of the other workers, would save if worker `straggler` were as fast
// as they are: waits for it would be as long as waits for any other worker.
double SavedWithoutStraggler(int64_t straggler, const StepBreakdown& breakdown);

// The seconds that are left when `bottleneck` takes no time. Never less than the work that runs
// in parallel to the training thread: the input threads, and all processes of the host on its
// cores. `cores` 0: unknown.
double SecondsWithout(const Bottleneck& bottleneck, const StepBreakdown& breakdown, double cores);

}  // namespace millrace::report
