#include "trainer/loop/backend.h"

namespace millrace::trainer {

void Backend::Count(const StepResult& step, TrainingState& state) const {
  state.steps += step.steps;
  state.examples += step.examples;
  state.row_loss += step.loss;
  state.row_weight += step.weight;
  state.total_loss += step.loss;
  state.total_weight += step.weight;
}

void CountJob(const JobTotals& job, TrainingState& state) {
  state.row_loss += job.loss - state.total_loss;
  state.row_weight += job.weight - state.total_weight;
  state.steps = job.steps;
  state.examples = job.examples;
  state.total_loss = job.loss;
  state.total_weight = job.weight;
}

}  // namespace millrace::trainer
