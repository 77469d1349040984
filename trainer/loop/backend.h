// SPDX-License-Identifier: Apache-2.0
// Where the model of a run lives: in this process, or on the servers of a job.
#pragma once

#include <cstdint>

#include "io/base/status.h"
#include "trainer/loop/training_state.h"

namespace millrace::trainer {

// The examples of one step of this process.
struct StepResult {
  uint64_t steps = 0;  // updates, usually 1
  uint64_t examples = 0;
  double loss = 0;  // summed over the examples, each before the model trained on it
  double weight = 0;
  double positive = 0;  // the part of `weight` with a positive label; nets do not count it
};

// The default implementations are for a model that only this process trains. Not thread-safe.
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
  // Blocks until every update of this process is applied.
  virtual Status Flush() { return {}; }

  // For the chief: ends the training of all workers.
  virtual Status Stop() { return {}; }
  // Whether the chief has ended the training.
  virtual bool stopped() const { return false; }
  // For a worker that was asked to stop and whose step was cancelled: blocks until the chief has
  // stopped the job, or for about a second. False if the worker cannot continue the job.
  virtual Result<bool> WaitForStop() { return false; }

  // For the chief after it has trained on its part of the data: runs a step without examples, so
  // that it can evaluate, write checkpoints and stop between the steps of the other workers. If
  // workers do not step together, it blocks until the job has trained on `until` examples, or for
  // about a second. False if no worker is training any more.
  virtual Result<bool> EmptyStep(const ResumePoint& /*own*/, uint64_t /*until*/) { return false; }
  // Ends the training of this process. For the chief it blocks until all workers have finished;
  // the model is then final.
  virtual Status Finish() { return {}; }

  // Everything that a later run needs to resume from here. The backend is flushed.
  virtual Status Checkpoint(const TrainingState& state) = 0;
};

// The totals of a job.
struct JobTotals {
  uint64_t steps = 0;
  uint64_t examples = 0;
  double loss = 0, weight = 0;
};
// Sets the sums of `state` to those of the job; the difference counts for the current row.
inline void CountJob(const JobTotals& job, TrainingState& state) {
  state.row_loss += job.loss - state.total_loss;
  state.row_weight += job.weight - state.total_weight;
  state.steps = job.steps;
  state.examples = job.examples;
  state.total_loss = job.loss;
  state.total_weight = job.weight;
}

}  // namespace millrace::trainer
