// SPDX-License-Identifier: Apache-2.0
#include "convnets/train/net_backend.h"

#include <vector>

#include "io/state/checkpoint_folder.h"
#include "io/state/manifest.h"

namespace millrace::convnets {
namespace {

constexpr size_t kKeptBefore = 1;

}  // namespace

Result<trainer::TrainingStart> LocalNetBackend::Start(const NetStart& start) {
  run_ = start.run;
  store_ = std::make_unique<sparse::LocalDenseStore>(options_.update, start.parallel_for);
  RETURN_IF_ERROR(store_->Init(start.params));
  for (size_t p = 0; p < start.params.size(); ++p) {
    arrays_.push_back(start.params[p].weights);
    arrays_.push_back(store_->state(p));
  }
  return options_.resume ? Restore() : trainer::TrainingStart();
}

Result<trainer::TrainingStart> LocalNetBackend::Restore() {
  ASSIGN_OR_RETURN(const io::Manifest manifest, io::ReadManifest(options_.checkpoints));
  if (manifest.checkpoint) {
    return Invalid(options_.checkpoints +
                   " has checkpoints of a job with servers, which a net of one process cannot "
                   "resume: resume with as many servers and workers, or start a new run elsewhere");
  }
  io::RemoveTemporaryFiles(options_.checkpoints);
  ASSIGN_OR_RETURN(const std::vector<io::CheckpointFile> files,
                   io::ListCheckpoints(options_.checkpoints));
  for (const io::CheckpointFile& file : files) {
    const Result<io::StateFields> fields = LoadArrays(file.path, run_, arrays_);
    if (fields.ok()) {
      ASSIGN_OR_RETURN(trainer::TrainingState state, trainer::TrainingStateFrom(*fields));
      store_->set_steps(state.steps);
      return trainer::TrainingStart{.state = state, .resumed_step = state.steps};
    }
    if (fields.status().code() != Code::kCorrupt) return fields.status();
    Note(fields.status().message());
  }
  if (!files.empty()) {
    return Corrupt(options_.checkpoints + ": all " + std::to_string(files.size()) +
                   " checkpoints are corrupt");
  }
  Note(options_.checkpoints + " has no checkpoint: starting from the beginning");
  return trainer::TrainingStart();
}

Status LocalNetBackend::Checkpoint(const trainer::TrainingState& state) {
  RETURN_IF_ERROR(io::MakeRealFolder(options_.checkpoints));
  io::StateFields fields = run_;
  trainer::AddTrainingState(state, fields);
  RETURN_IF_ERROR(SaveArrays(io::CheckpointPath(options_.checkpoints, state.steps), fields, arrays_,
                             io::AtPath::kReplace));
  io::RemoveOtherCheckpoints(options_.checkpoints, state.steps, kKeptBefore);
  return {};
}

void LocalNetBackend::Note(const std::string& note) const {
  if (options_.on_note) options_.on_note(note);
}

}  // namespace millrace::convnets
