// SPDX-License-Identifier: Apache-2.0
// How the time of a worker's training thread splits into parts of a step.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/report/pipeline.h"
#include "tools/report/run_data.h"

namespace millrace::report {

enum class Part {
  kInput,  // waiting for a batch while input threads decode or are idle
  kDisk,   // waiting for a batch while input threads read files
  kCompute,
  kNetwork,  // sending, and waiting for a reply in transit
  kServer,   // waiting while a server processes the request
  kBarrier,  // waiting while the server waits for another worker
  kEvaluation,
  kCheckpoint,
  kOther,  // between spans
};
inline constexpr size_t kParts = 9;
const char* PartName(Part part);

struct BarrierWaits {
  double seconds = 0;
  double waits = 0;
};

struct StepBreakdown {
  std::string process;
  double total_s = 0;  // from the first step to the end of the last span before the model is saved
  int64_t begin_ns = 0;  // of that time
  // Long first steps, in which memory is allocated; excluded from all other members.
  uint64_t warm_up_steps = 0;
  double warm_up_s = 0;
  // Long first steps of a trace that begins with the first step, in which buffers fill; excluded
  // as well. 0 if they take a small part of the traced time.
  uint64_t start_up_steps = 0;
  double start_up_s = 0;
  double start_up_share = 0;  // of the traced time
  std::array<double, kParts> seconds = {};
  uint64_t steps = 0;
  uint64_t rows = 0;
  std::map<int64_t, BarrierWaits> barriers;  // by the worker that caused the wait; -1: unknown
  // The input threads, which run in parallel.
  size_t input_threads = 0;
  PerCause input_busy_s;  // their time, by kInputCauses
  double read_bytes = 0;
  // How long each took, in their order.
  std::vector<double> evaluations_s, checkpoints_s;
  // Exchanges with servers.
  double exchanges = 0;
  double exchanged_keys = 0;
  double sent_bytes = 0;
  double received_bytes = 0;
  // From the samples, over the same time; 0 without samples.
  double cpu_s = 0;
  double training_cpu_s = 0;  // of the training thread
  double input_cpu_s = 0;     // of the input threads
  double server_cpu_s = 0;    // of the job's servers on the same host
  double host_cpu_s = 0;      // of all processes of the run on the same host
  double host_core_s = 0;     // the time of all cores of the host, busy or idle
  double others_cpu_s = 0;    // of the processes of the host that do not belong to the run
  Pipeline pipeline;          // what the rest of the members says, as a model that can be asked

  double operator[](Part part) const { return seconds[static_cast<size_t>(part)]; }
  double& operator[](Part part) { return seconds[static_cast<size_t>(part)]; }
  double input_busy() const;  // of all input threads
  double input_s() const { return (*this)[Part::kInput] + (*this)[Part::kDisk]; }
};

// Nothing for a process whose trace has no steps. `server_share`: the share of the servers' time
// that remains without Cause::kServer.
std::optional<StepBreakdown> MakeStepBreakdown(const RunData& run, const ProcessData& process,
                                               double server_share = 0);

// The mean of several workers' breakdowns, without their pipelines; counts and traffic are summed.
StepBreakdown MeanBreakdown(const std::vector<StepBreakdown>& breakdowns);

// When the warm-up of the last worker ended; INT64_MIN without steps.
int64_t WarmUpEndNs(const RunData& run);

}  // namespace millrace::report
