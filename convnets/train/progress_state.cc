#include "convnets/train/progress_state.h"

namespace millrace::convnets {

void ProgressState::AddTo(io::StateFields& fields) const {
  fields.AddUint("training.steps", steps);
  fields.AddUint("training.examples", examples);
  fields.AddUint("training.batches", batches);
  fields.AddUint("training.own_examples", own_examples);
  fields.AddDouble("training.seconds", seconds);
  fields.AddDouble("training.row_loss", row_loss);
  fields.AddUint("training.row_examples", row_examples);
  fields.AddUint("training.row_own_examples", row_own_examples);
  fields.AddUint("training.row_correct", row_correct);
  fields.AddDouble("training.total_loss", total_loss);
  fields.AddUint("training.tested_at", tested_at);
}

Result<ProgressState> ProgressState::From(const io::StateFields& fields) {
  ProgressState state;
  ASSIGN_OR_RETURN(state.steps, fields.Uint("training.steps"));
  ASSIGN_OR_RETURN(state.examples, fields.Uint("training.examples"));
  ASSIGN_OR_RETURN(state.batches, fields.Uint("training.batches"));
  ASSIGN_OR_RETURN(state.own_examples, fields.Uint("training.own_examples"));
  ASSIGN_OR_RETURN(state.seconds, fields.Double("training.seconds"));
  ASSIGN_OR_RETURN(state.row_loss, fields.Double("training.row_loss"));
  ASSIGN_OR_RETURN(state.row_examples, fields.Uint("training.row_examples"));
  ASSIGN_OR_RETURN(state.row_own_examples, fields.Uint("training.row_own_examples"));
  ASSIGN_OR_RETURN(state.row_correct, fields.Uint("training.row_correct"));
  ASSIGN_OR_RETURN(state.total_loss, fields.Double("training.total_loss"));
  ASSIGN_OR_RETURN(state.tested_at, fields.Uint("training.tested_at"));
  return state;
}

}  // namespace millrace::convnets
