// SPDX-License-Identifier: Apache-2.0
// The model behind every diagnosis: a worker as a pipeline whose stages work at the same time.
//
//   input threads                                queue            training thread
//   read, decompress, decode, split keys   ->   K slices   ->   compute, exchange, evaluate, save
//
// The run is cut into slices of equally many steps. For each slice the training thread has its own
// work, and the input threads have work that any of them does, at most K slices ahead. All threads
// share the cores of the host: where more of them want to compute than there are cores, each gets a
// share. A cause is a part of this work. Without it, the same pipeline runs with less work, and the
// rest overlaps in another way: that is the prediction. Shares, causes and what-ifs all come from
// RunPipeline.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace millrace::report {

enum class Cause {
  // Work of the input threads.
  kReading,
  kDecompression,
  kDecoding,  // everything from the bytes of records to rows
  kKeySplit,
  // Work and waits of the training thread.
  kTraining,
  kEvaluation,
  kCheckpoint,
  kNetwork,
  kServer,
  kBarrier,
  // Cores that programs outside of the run use.
  kOtherProcesses,
};
inline constexpr size_t kCauses = 11;
inline constexpr size_t kInputCauses = 4;  // the first ones
const char* CauseName(Cause cause);
inline bool IsInput(Cause cause) { return static_cast<size_t>(cause) < kInputCauses; }

// A number for each cause.
struct PerCause {
  std::array<double, kCauses> values = {};

  double operator[](Cause cause) const { return values[static_cast<size_t>(cause)]; }
  double& operator[](Cause cause) { return values[static_cast<size_t>(cause)]; }
};

struct PipelineSlice {
  double cpu_s = 0;      // the training thread computes
  double blocked_s = 0;  // it waits for something else than input or a core
  // What the slice saves without a cause; for input only if nothing is known about its threads, so
  // that it is a wait of the training thread. Causes may overlap: two of them may save less than
  // the sum.
  PerCause saved_s;
};

struct Pipeline {
  std::vector<PipelineSlice> slices;
  // The work of all input threads for the whole run, at full speed; values of kInputCauses.
  PerCause input_s;
  double reading_cpu_share = 1;  // the rest of reading waits for a disk, for example
  double input_threads = 1;
  double queue_slices = 1;    // that the input threads may be ahead
  double group_slices = 1;    // that an input thread prepares at a time
  bool starts_empty = false;  // the training thread waits until the first group is there
  double cores = 0;           // of the host; 0: unknown, then nobody waits for a core
  double other_threads = 0;   // of other programs that want a core, on average
  double background_s = 0;    // CPU time on this host of the run's other threads and processes
  double server_cpu_s = 0;    // the part of background_s that would not exist without kServer
  double measured_s = 0;
  double measured_wait_s = 0;  // of the training thread for input
};

// What changes: each cause takes this share of the time that it takes now. 1: as it is, 0: none.
struct WhatIf {
  PerCause left = {{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}};
  double more_input_threads = 0;

  static WhatIf Without(Cause cause);
  static WhatIf WithoutInput();
};

struct PipelineTime {
  double seconds = 0;
  double input_wait_s = 0;
};

// How long the pipeline takes.
PipelineTime RunPipeline(const Pipeline& pipeline, const WhatIf& what_if = {});

// Scales the work of the input threads so that the model takes as long as the run did and waits for
// input as much, if the run waited for it: threads that wait for locks or for each other do less
// than they could.
void Calibrate(Pipeline& pipeline);

// The predicted seconds of the run: its own time, times the model's ratio.
double PredictedSeconds(const Pipeline& pipeline, const WhatIf& what_if);

}  // namespace millrace::report
