#include "trainer/loop/training_state.h"

namespace millrace::trainer {
namespace {

// The one list of names; `visit(name, member)` writes or reads.
template <typename State, typename Visit>
void ForEachMember(State& s, Visit visit) {
  visit("training.steps", s.steps);
  visit("training.examples", s.examples);
  visit("training.seconds", s.seconds);
  visit("training.epoch", s.position.epoch);
  visit("training.epoch_rows", s.position.rows);
  visit("training.input_fingerprint", s.input_fingerprint);
  visit("training.row_loss", s.row_loss);
  visit("training.row_weight", s.row_weight);
  visit("training.total_loss", s.total_loss);
  visit("training.total_weight", s.total_weight);
  visit("training.tests", s.tests);
  visit("training.tested_at", s.tested_at);
  visit("training.best", s.early_stop.best);
  visit("training.best_step", s.early_stop.best_step);
  visit("training.tests_since_best", s.early_stop.tests_since_best);
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

}  // namespace millrace::trainer
