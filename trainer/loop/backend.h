// SPDX-License-Identifier: Apache-2.0
// Where the model of a run lives: in this process, or on the servers of a job.
#pragma once

#include <cstdint>

#include "io/base/status.h"
#include "trainer/loop/training_state.h"

namespace millrace::trainer {

// What one step of this process was trained on.
struct StepResult {
  uint64_t steps = 0;  // updates: 1 as a rule
  uint64_t examples = 0;
  double loss = 0;  // summed over the examples, each before the model trained on it
  double weight = 0;
};

// The functions that are not pure describe a model that only this process trains. Not thread-safe.
class Backend {
 public:
  virtual ~Backend() = default;

  // Worker 0 is the chief: it evaluates the model, writes checkpoints and saves the model.
  virtual uint64_t worker() const { return 0; }
  virtual uint64_t num_workers() const { return 1; }
  bool chief() const { return worker() == 0; }
  // The model is on servers.
  virtual bool remote() const { return false; }

  // Adds what was trained on since the last call to the sums of `state`: here `step`, on servers
  // the steps of all workers that are known by now.
  virtual void Count(const StepResult& step, TrainingState& state) const {
    state.steps += step.steps;
    state.examples += step.examples;
    state.row_loss += step.loss;
    state.row_weight += step.weight;
    state.total_loss += step.loss;
    state.total_weight += step.weight;
  }
  // Examples that the workers may have trained on before Count knows of them. Flush makes it 0.
  virtual uint64_t uncounted_examples() const { return 0; }
  // Blocks until all that this process has sent is applied.
  virtual Status Flush() { return {}; }

  // The chief's: ends the training of all workers.
  virtual Status Stop() { return {}; }
  // The chief has done so.
  virtual bool stopped() const { return false; }
  // For a worker that was asked to stop and whose step was cancelled: blocks until the chief has
  // stopped the job, or for about a second. False if the worker cannot go on with its job.
  virtual Result<bool> WaitForStop() { return false; }

  // The chief's, when it has trained on its part of the data: a step without examples, so that it
  // can evaluate, write checkpoints and stop between steps of the other workers. Where workers do
  // not step together it blocks until the job has trained on `until` examples, or for about a
  // second. False when no worker trains any more.
  virtual Result<bool> EmptyStep(const ResumePoint& /*own*/, uint64_t /*until*/) { return false; }
  // This process trains no more. The chief's call blocks until no worker does, and leaves the final
  // model.
  virtual Status Finish() { return {}; }

  // Everything that a later run needs to resume from here. The backend is flushed.
  virtual Status Checkpoint(const TrainingState& state) = 0;
};

// What a job has trained on in all.
struct JobTotals {
  uint64_t steps = 0;
  uint64_t examples = 0;
  double loss = 0, weight = 0;
};
// Brings the sums of `state` to those of the job; the difference belongs to the present row.
inline void CountJob(const JobTotals& job, TrainingState& state) {
  state.row_loss += job.loss - state.total_loss;
  state.row_weight += job.weight - state.total_weight;
  state.steps = job.steps;
  state.examples = job.examples;
  state.total_loss = job.loss;
  state.total_weight = job.weight;
}

}  // namespace millrace::trainer
