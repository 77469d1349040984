// SPDX-License-Identifier: Apache-2.0
#include "trainer/loop/training_state.h"

#include <cstring>

namespace millrace::trainer {
namespace {

struct ResumePointBytes {
  uint64_t batches, examples, epoch, rows, digest, fingerprint;
};
static_assert(sizeof(ResumePointBytes) == 48);

// The one list of names; `visit(name, member)` writes or reads.
template <typename State, typename Visit>
void ForEachMember(State& s, Visit visit) {
  visit("training.steps", s.steps);
  visit("training.examples", s.examples);
  visit("training.seconds", s.seconds);
  visit("training.own_batches", s.own.batches);
  visit("training.own_examples", s.own.examples);
  visit("training.epoch", s.own.position.epoch);
  visit("training.epoch_rows", s.own.position.rows);
  visit("training.epoch_digest", s.own.position.digest);
  visit("training.input_fingerprint", s.own.input_fingerprint);
  visit("training.row_loss", s.row_loss);
  visit("training.row_weight", s.row_weight);
  visit("training.total_loss", s.total_loss);
  visit("training.total_weight", s.total_weight);
  visit("training.row_own_examples", s.row_own_examples);
  visit("training.row_own_correct", s.row_own_correct);
  visit("training.own_weight", s.own_weight);
  visit("training.own_positive", s.own_positive);
  visit("training.evaluations", s.evaluations);
  visit("training.evaluated_at", s.evaluated_at);
  visit("training.best_metric", s.early_stop.metric);
  visit("training.best", s.early_stop.best);
  visit("training.best_step", s.early_stop.best_step);
  visit("training.best_examples", s.early_stop.best_examples);
  visit("training.best_metrics", s.early_stop.best_metrics);
  visit("training.evaluations_since_best", s.early_stop.evaluations_since_best);
  visit("training.lowest_logloss", s.lowest_logloss);
  visit("training.lowest_logloss_step", s.lowest_logloss_step);
  visit("training.lowest_logloss_loss", s.lowest_logloss_loss);
  visit("training.options_digest", s.options_digest);
}

struct Adder {
  io::StateFields& fields;
  void operator()(const char* name, uint64_t value) const { fields.AddUint(name, value); }
  void operator()(const char* name, double value) const { fields.AddDouble(name, value); }
  void operator()(const char* name, const std::string& value) const { fields.Add(name, value); }
};

// Keeps the first error.
struct Taker {
  const io::StateFields& fields;
  Status& status;

  void operator()(const char* name, uint64_t& value) const { Take(fields.Uint(name), value); }
  void operator()(const char* name, double& value) const { Take(fields.Double(name), value); }
  void operator()(const char* name, std::string& value) const { Take(fields.Text(name), value); }

  template <typename T>
  void Take(const Result<T>& field, T& value) const {
    if (field.ok()) {
      value = *field;
    } else if (status.ok()) {
      status = field.status();
    }
  }
};

}  // namespace

std::string ResumePoint::Encode() const {
  const ResumePointBytes bytes = {batches,       examples,        position.epoch,
                                  position.rows, position.digest, input_fingerprint};
  return {reinterpret_cast<const char*>(&bytes), sizeof bytes};
}

Result<ResumePoint> ResumePoint::Decode(const std::string& text) {
  ResumePointBytes bytes;
  if (text.size() != sizeof bytes) {
    return Corrupt("a worker's resume point: expected " + std::to_string(sizeof bytes) +
                   " bytes, found " + std::to_string(text.size()));
  }
  std::memcpy(&bytes, text.data(), sizeof bytes);
  return ResumePoint{.batches = bytes.batches,
                     .examples = bytes.examples,
                     .position = {.epoch = bytes.epoch, .rows = bytes.rows, .digest = bytes.digest},
                     .input_fingerprint = bytes.fingerprint};
}

std::optional<BestEvaluation> BestOf(const TrainingState& state) {
  const EarlyStopState& best = state.early_stop;
  if (best.best_step == 0) return std::nullopt;
  return BestEvaluation{best.metric, best.best_step, best.best_examples, best.best_metrics};
}

void AddTrainingState(const TrainingState& state, io::StateFields& fields) {
  ForEachMember(state, Adder{fields});
}

Result<TrainingState> TrainingStateFrom(const io::StateFields& fields) {
  TrainingState state;
  Status status;
  ForEachMember(state, Taker{fields, status});
  if (!status.ok()) return status;
  return state;
}

std::string EncodeTrainingState(const TrainingState& state) {
  io::StateFields fields;
  AddTrainingState(state, fields);
  return fields.Encode();
}

Result<TrainingState> DecodeTrainingState(const std::string& text) {
  ASSIGN_OR_RETURN(const io::StateFields fields, io::StateFields::Decode(text));
  return TrainingStateFrom(fields);
}

}  // namespace millrace::trainer
