// SPDX-License-Identifier: Apache-2.0
#include "trainer/sparse/checkpoint.h"

#include <span>
#include <utility>

#include "io/state/checkpoint_folder.h"
#include "io/state/state_file.h"
#include "profiler/trace.h"
#include "trainer/model/model.h"

namespace millrace::trainer {
namespace {

constexpr char kKind[] = "checkpoint";
constexpr size_t kKeptBefore = 1;

// What must be the same in the run that resumes.
io::StateFields StoreFields(const sparse::LocalStore& store) {
  io::StateFields fields;
  fields.AddUint("num_features", store.shape().num_features);
  fields.AddUint("intercept", store.shape().intercept ? 1 : 0);
  sparse::AddUpdateOptions(store.options(), fields);
  return fields;
}

io::StateFields CheckpointFields(const sparse::LocalStore& store, const TrainingState& state,
                                 const std::optional<io::RowFormat>& input) {
  io::StateFields fields = StoreFields(store);
  fields.Add("kind", kKind);
  fields.AddUint("steps", store.steps());
  fields.AddUint("examples", state.examples);
  if (input) AddRowFormat(*input, fields);
  AddTrainingState(state, fields);
  return fields;
}

Status CheckSame(const std::string& path, const io::StateFields& ours,
                 const io::StateFields& theirs) {
  for (const auto& [name, value] : ours.all()) {
    const Result<std::string> found = theirs.Text(name);
    if (!found.ok()) return Corrupt(path + ": " + found.status().message());
    if (*found == value) continue;
    return Invalid(path + ": " + name + ": this run has " + value + ", the checkpoint " + *found +
                   "; a resumed run needs the options that it started with");
  }
  return {};
}

Status CheckStore(const std::string& path, const io::StateReader& reader,
                  const sparse::LocalStore& store) {
  const Result<std::string> kind = reader.fields().Text("kind");
  if (!kind.ok() || *kind != kKind) return Corrupt(path + ": expected a checkpoint");
  RETURN_IF_ERROR(CheckSame(path, StoreFields(store), reader.fields()));
  if (reader.floats_per_entry() == store.slot_floats()) return {};
  return Corrupt(path + ": expected " + std::to_string(store.slot_floats()) +
                 " numbers a feature, found " + std::to_string(reader.floats_per_entry()));
}

// Reads the entries to the end, with `take` called for each block.
template <typename Take>
Status ReadEntries(io::StateReader& reader, Take take) {
  io::StateBlock block;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader.Next(block));
    if (!more) return {};
    RETURN_IF_ERROR(take(block));
  }
}

// Reads all of the file and changes nothing: nothing of a corrupt one may reach the store.
Status Verify(const std::string& path, io::StateReader& reader, const sparse::LocalStore& store) {
  RETURN_IF_ERROR(CheckStore(path, reader, store));
  const uint64_t num_features = store.shape().num_features;
  return ReadEntries(reader, [&](const io::StateBlock& block) -> Status {
    const std::span<const uint64_t> features = io::FeatureKeys(block.keys);
    if (features.size() < block.size() && !store.shape().intercept) {
      return Corrupt(path + ": expected no intercept, found one");
    }
    if (num_features == 0 || features.empty() || features.back() < num_features) return {};
    return Corrupt(path + ": expected keys below " + ShapeText(num_features) + ", found " +
                   std::to_string(features.back()));
  });
}

Status LoadEntries(const std::string& path, sparse::LocalStore& store) {
  ASSIGN_OR_RETURN(io::StateReader reader, io::StateReader::Open(path));
  return ReadEntries(reader, [&](const io::StateBlock& block) -> Status {
    for (size_t i = 0; i < block.size(); ++i) {
      RETURN_IF_ERROR(store.Load(block.keys[i], block.state(i)));
    }
    return {};
  });
}

Result<TrainingState> Load(const std::string& path, sparse::LocalStore& store) {
  TRACE_SCOPE("load_checkpoint", profiler::Cat::kCheckpoint);
  ASSIGN_OR_RETURN(io::StateReader reader, io::StateReader::Open(path));
  RETURN_IF_ERROR(Verify(path, reader, store));
  const Result<uint64_t> steps = reader.fields().Uint("steps");
  Result<TrainingState> state = TrainingStateFrom(reader.fields());
  for (const Status& status : {steps.status(), state.status()}) {
    if (!status.ok()) return Corrupt(path + ": " + status.message());
  }
  RETURN_IF_ERROR(LoadEntries(path, store));
  store.set_steps(*steps);
  return state;
}

}  // namespace

Status SaveCheckpoint(const std::string& folder, const sparse::LocalStore& store,
                      const TrainingState& state, const std::optional<io::RowFormat>& input) {
  TRACE_SCOPE("save_checkpoint", profiler::Cat::kCheckpoint);
  RETURN_IF_ERROR(io::MakeRealFolder(folder));
  io::RemoveTemporaryFiles(folder);
  ASSIGN_OR_RETURN(
      io::StateWriter writer,
      io::StateWriter::Create(
          io::CheckpointPath(folder, state.steps), CheckpointFields(store, state, input),
          {.floats_per_entry = store.slot_floats(), .at_path = io::AtPath::kReplace}));
  store.ForEach([&](uint64_t key, std::span<const float> slot) { writer.Add(key, slot); });
  RETURN_IF_ERROR(writer.Finish());
  io::RemoveOtherCheckpoints(folder, state.steps, kKeptBefore);
  return {};
}

Result<LatestCheckpoint> LoadLatestCheckpoint(const std::string& folder,
                                              sparse::LocalStore& store) {
  io::RemoveTemporaryFiles(folder);
  ASSIGN_OR_RETURN(const std::vector<io::CheckpointFile> files, io::ListCheckpoints(folder));
  LatestCheckpoint latest;
  for (const io::CheckpointFile& file : files) {
    Result<TrainingState> state = Load(file.path, store);
    if (state.ok()) {
      latest.state = std::move(*state);
      latest.path = file.path;
      return latest;
    }
    if (state.status().code() != Code::kCorrupt) return state.status();
    latest.warnings.push_back(state.status().message());
  }
  if (files.empty()) return latest;
  return Corrupt(folder + ": all " + std::to_string(files.size()) +
                 " checkpoints are corrupt; the newest: " + latest.warnings.front());
}

}  // namespace millrace::trainer
