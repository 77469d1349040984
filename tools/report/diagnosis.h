// SPDX-License-Identifier: Apache-2.0
// What limits the speed of a run, with the numbers that prove it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/report/run_data.h"
#include "tools/report/step_breakdown.h"

namespace millrace::report {

struct Bottleneck {
  // "input", "compute", "network", "server", "barrier", "evaluation", "checkpoint"
  const char* name;
  double seconds;
};

// The part of the training thread that takes the most time.
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

// The share of the barrier waits in `breakdown`, of the other workers, that they would not have if
// worker `straggler` were as fast as they are: waits for it would be as long as waits for any other
// worker.
double SavedWithoutStraggler(int64_t straggler, const StepBreakdown& breakdown);

// How many times as fast the workers would be together.
double PredictedGain(const std::vector<StepBreakdown>& workers, const WhatIf& what_if);

// A change that the user can make, and what it gains.
struct Advice {
  std::string text;  // "convert the files to zstd (millrace-records convert --compression=zstd)"
  double gain = 1;   // times as fast; 0: unknown
};

struct Diagnosis {
  // "input", "compute", "network", "server", "barrier", "evaluation", "checkpoint", "host" (other
  // processes have its cores); "unknown" without a trace that has steps.
  std::string bottleneck = "unknown";
  Cause cause = Cause::kTraining;  // the same more precisely: which part of the input
  // "worker-2", if the bottleneck is "barrier" and most waits there are for one worker.
  std::string straggler;
  bool server_works = true;    // false: the servers mostly wait for locks, requests or a core
  double share = 0;            // of the time, that the bottleneck takes
  double speedup_without = 1;  // at most this, if `cause` took no time
  std::vector<std::pair<Cause, double>> speedups;  // the same for all causes, largest first
  std::vector<Advice> advice;                      // best first
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

// The text of a diagnosis (diagnosis_text.cc).

// "Input-bound: 61.2 % of the time ...". `diagnosis` has all but sentence and evidence.
std::string Sentence(const RunData& run, const Diagnosis& diagnosis,
                     const std::vector<ServerLoad>& servers);

// What to change, by cause (advice.cc). `workers`: those that the diagnosis is about.
std::vector<Advice> MakeAdvice(const RunData& run, const Diagnosis& diagnosis,
                               const std::vector<StepBreakdown>& workers);

// "--eval_every=200000: up to 3.9 times as fast"
std::string AdviceText(const Advice& advice);

// Why a run without traced steps has no diagnosis.
std::string NoStepsSentence(const RunData& run);

// Which part of the run the traces cover, where that is not all of it.
std::vector<std::string> TraceBounds(const RunData& run, const std::vector<StepBreakdown>& workers);

// TraceBounds, then predicted and measured step time, traffic, and the use of the machine.
// `num_workers`: how many diagnosis.breakdown is the mean of.
std::vector<std::string> Evidence(const RunData& run, const Diagnosis& diagnosis,
                                  size_t num_workers, const Limits& limits);

// One row for each part of a step, three columns for each worker.
std::string BreakdownText(const Diagnosis& diagnosis);

}  // namespace millrace::report
