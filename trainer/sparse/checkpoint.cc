// SPDX-License-Identifier: Apache-2.0
#include "trainer/sparse/checkpoint.h"

#include <unistd.h>

#include <algorithm>
#include <span>
#include <utility>

#include "io/base/random.h"
#include "io/state/checkpoint_folder.h"
#include "profiler/clock.h"
#include "profiler/trace.h"
#include "trainer/loop/backend.h"

namespace millrace::trainer {
namespace {

// Tells this process from others that claim the same folder.
uint64_t Owner() {
  return Mix64(static_cast<uint64_t>(::getpid()) ^ static_cast<uint64_t>(NowNs())) | 1;
}

}  // namespace

sparse::CheckpointInfo RunCheckpoints::InfoOf(const sparse::LocalStore& store) const {
  return {.num_features = store.shape().num_features,
          .intercept = store.shape().intercept,
          .factors = store.shape().factors,
          .update = store.options(),
          .data = data_,
          .input = input_};
}

Status RunCheckpoints::Claim() {
  if (part_claim_) return {};
  ASSIGN_OR_RETURN(const io::Manifest found, io::ReadManifest(folder_));
  if (found.checkpoint && !loaded_) {
    return Invalid(folder_ + " has checkpoint " + std::to_string(*found.checkpoint) +
                   " of an earlier run: resume that run, or start a new one elsewhere");
  }
  io::Manifest mine = loaded_.value_or(io::Manifest());
  mine.epoch = found.epoch + 1;
  mine.owner = Owner();
  ASSIGN_OR_RETURN(claim_, io::FolderClaim::Take(folder_, mine));
  const std::string part_folder = io::PartFolder(folder_, 0);
  ASSIGN_OR_RETURN(const io::Manifest part, io::ReadManifest(part_folder));
  ASSIGN_OR_RETURN(part_claim_, io::FolderClaim::Take(
                                    part_folder, {.epoch = std::max(mine.epoch, part.epoch + 1),
                                                  .owner = mine.owner}));
  return {};
}

Status RunCheckpoints::Save(const sparse::LocalStore& store, const TrainingState& state) {
  TRACE_SCOPE("save_checkpoint", profiler::Cat::kCheckpoint);
  RETURN_IF_ERROR(Claim());
  // Nothing was trained since the checkpoint of several servers, whose parts must stay.
  const io::Manifest& committed = claim_->manifest();
  if (committed.checkpoint == state.steps && committed.shards != 1) return {};
  const std::string folder = io::PartFolder(folder_, 0);
  io::RemoveTemporaryFiles(folder);
  sparse::CheckpointInfo info = InfoOf(store);
  info.steps = store.steps();
  info.examples = state.examples;
  info.loss = state.total_loss;
  info.weight = state.total_weight;
  info.chief_state = EncodeTrainingState(state);
  info.workers = {{.sequence = state.own.batches, .state = state.own.Encode()}};
  ASSIGN_OR_RETURN(io::StateWriter part,
                   sparse::WritePart(io::CheckpointPath(folder, state.steps), info, store,
                                     [](uint64_t key) { return key; }));
  RETURN_IF_ERROR(part_claim_->CommitPart(part, state.steps, committed.checkpoint));
  return claim_->CommitCheckpoint(state.steps, 1);
}

Result<TrainingState> RunCheckpoints::Load(const sparse::CheckpointParts& parts,
                                           const sparse::LocalStore& like,
                                           std::unique_ptr<sparse::LocalStore>& loaded) const {
  TRACE_SCOPE("load_checkpoint", profiler::Cat::kCheckpoint);
  ASSIGN_OR_RETURN(auto store, sparse::LocalStore::Create(like.shape(), like.options()));
  const sparse::CheckpointInfo mine = InfoOf(like);
  ASSIGN_OR_RETURN(
      const sparse::CheckpointInfo info,
      sparse::ReadParts(
          parts, store->rule_floats(),
          [&](const sparse::CheckpointInfo& theirs) { return sparse::CheckSameRun(mine, theirs); },
          [&](uint64_t key, std::span<const float> state) { return store->Load(key, state); }));
  ASSIGN_OR_RETURN(TrainingState state, DecodeTrainingState(info.chief_state));
  if (info.workers.size() == 1) {
    ASSIGN_OR_RETURN(state.own, ResumePoint::Decode(info.workers[0].state));
  } else {
    std::vector<std::string> earlier;
    for (const sparse::WorkerPosition& worker : info.workers) earlier.push_back(worker.state);
    ASSIGN_OR_RETURN(std::vector<ResumePoint> own, DivideStreams(earlier, 1));
    state.own = std::move(own[0]);
    // Worker 0 may not have known of the last pushes of the others.
    CountJob(
        {.steps = info.steps, .examples = info.examples, .loss = info.loss, .weight = info.weight},
        state);
  }
  store->set_steps(info.steps);
  loaded = std::move(store);
  return state;
}

Result<LatestCheckpoint> RunCheckpoints::LoadLatest(const sparse::LocalStore& store) {
  ASSIGN_OR_RETURN(const io::Manifest manifest, io::ReadManifestToResume(folder_));
  LatestCheckpoint latest;
  const std::pair<std::optional<uint64_t>, uint64_t> candidates[] = {
      {manifest.checkpoint, manifest.shards}, {manifest.previous, manifest.previous_shards}};
  for (const auto& [id, shards] : candidates) {
    if (!id) continue;
    Result<TrainingState> state =
        Load({.checkpoints = folder_, .id = *id, .shards = shards}, store, latest.store);
    if (state.ok()) {
      latest.state = std::move(*state);
      loaded_ = manifest;
      if (manifest.previous == id) loaded_->previous.reset();
      loaded_->checkpoint = *id;
      loaded_->shards = shards;
      return latest;
    }
    const Code code = state.status().code();
    if (code != Code::kCorrupt && code != Code::kNotFound) return state.status();
    latest.warnings.push_back(state.status().message());
  }
  if (latest.warnings.empty()) return latest;
  return Invalid(latest.warnings.front() + ": no checkpoint in " + folder_ +
                 " can be used; the run stays as it is. Start a new one elsewhere");
}

Status ContinueFrom(const sparse::CheckpointParts& earlier, sparse::LocalStore& store,
                    TrainingState& state) {
  TRACE_SCOPE("load_checkpoint", profiler::Cat::kCheckpoint);
  const sparse::CheckpointInfo mine = {.num_features = store.shape().num_features,
                                       .intercept = store.shape().intercept,
                                       .factors = store.shape().factors,
                                       .update = store.options()};
  ASSIGN_OR_RETURN(const sparse::CheckpointInfo info,
                   sparse::ReadEarlierRun(
                       earlier, mine, [](uint64_t key) { return std::optional(key); }, store));
  state.steps = info.steps;
  state.examples = state.evaluated_at = info.examples;
  return {};
}

}  // namespace millrace::trainer
