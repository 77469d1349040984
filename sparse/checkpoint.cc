// SPDX-License-Identifier: Apache-2.0
#include "sparse/checkpoint.h"

#include <filesystem>
#include <sstream>

#include "io/state/checkpoint_folder.h"
#include "sparse/centers.h"

namespace millrace::sparse {
namespace {

constexpr char kKind[] = "checkpoint";
constexpr uint64_t kMaxShards = 4096, kMaxWorkers = 4096;
constexpr size_t kEntriesPerCall = 16;  // of now_and_then

std::string WorkerField(size_t worker, const char* name) {
  return "worker." + std::to_string(worker) + "." + name;
}

// The fields that must not change.
io::StateFields RunFields(const CheckpointInfo& info) {
  io::StateFields fields;
  fields.AddUint("num_features", info.num_features);
  fields.AddUint("intercept", info.intercept ? 1 : 0);
  AddFactorShape(info.factors, fields);
  AddUpdateOptions(info.update, fields);
  fields.Add("data", info.data);
  return fields;
}

io::StateFields FieldsOf(const CheckpointInfo& info) {
  io::StateFields fields = RunFields(info);
  fields.Add("kind", kKind);
  fields.AddUint("shard", info.shard);
  fields.AddUint("shards", info.shards);
  fields.AddUint("steps", info.steps);
  fields.AddUint("examples", info.examples);
  fields.AddDouble("loss", info.loss);
  fields.AddDouble("weight", info.weight);
  fields.AddBytes("chief_state", info.chief_state);
  fields.AddUint("workers", info.workers.size());
  for (size_t i = 0; i < info.workers.size(); ++i) {
    fields.AddUint(WorkerField(i, "sequence"), info.workers[i].sequence);
    fields.AddBytes(WorkerField(i, "state"), info.workers[i].state);
  }
  if (info.input) AddRowFormat(*info.input, fields);
  return fields;
}

Result<CheckpointInfo> Parse(const io::StateFields& fields) {
  CheckpointInfo info;
  ASSIGN_OR_RETURN(const std::string kind, fields.Text("kind"));
  if (kind != kKind) return Corrupt("expected a checkpoint, found kind " + kind);
  ASSIGN_OR_RETURN(info.shard, fields.Uint("shard"));
  ASSIGN_OR_RETURN(info.shards, fields.Uint("shards"));
  ASSIGN_OR_RETURN(info.num_features, fields.Uint("num_features"));
  ASSIGN_OR_RETURN(const uint64_t intercept, fields.Uint("intercept"));
  info.intercept = intercept != 0;
  ASSIGN_OR_RETURN(info.factors, FactorShapeFrom(fields));
  ASSIGN_OR_RETURN(info.update, UpdateOptionsFrom(fields));
  ASSIGN_OR_RETURN(info.data, fields.Text("data"));
  ASSIGN_OR_RETURN(info.steps, fields.Uint("steps"));
  ASSIGN_OR_RETURN(info.examples, fields.Uint("examples"));
  ASSIGN_OR_RETURN(info.loss, fields.Double("loss"));
  ASSIGN_OR_RETURN(info.weight, fields.Double("weight"));
  ASSIGN_OR_RETURN(info.chief_state, fields.Bytes("chief_state"));
  ASSIGN_OR_RETURN(const uint64_t workers, fields.Uint("workers"));
  if (info.shards == 0 || info.shards > kMaxShards || info.shard >= info.shards) {
    return Corrupt("header: expected a shard of at most " + std::to_string(kMaxShards) +
                   ", found shard " + std::to_string(info.shard) + " of " +
                   std::to_string(info.shards));
  }
  if (workers == 0 || workers > kMaxWorkers) {
    return Corrupt("header: expected 1 to " + std::to_string(kMaxWorkers) + " workers, found " +
                   std::to_string(workers));
  }
  for (size_t i = 0; i < workers; ++i) {
    WorkerPosition& worker = info.workers.emplace_back();
    ASSIGN_OR_RETURN(worker.sequence, fields.Uint(WorkerField(i, "sequence")));
    ASSIGN_OR_RETURN(worker.state, fields.Bytes(WorkerField(i, "state")));
  }
  ASSIGN_OR_RETURN(info.input, io::RowFormatFrom(fields));
  return info;
}

// The first words in which two texts of "name=value" differ.
std::pair<std::string, std::string> FirstDifference(const std::string& ours,
                                                    const std::string& theirs) {
  std::istringstream a(ours), b(theirs);
  std::string word_a, word_b;
  while (true) {
    const bool more_a = static_cast<bool>(a >> word_a), more_b = static_cast<bool>(b >> word_b);
    if (!more_a) word_a = "nothing more";
    if (!more_b) word_b = "nothing more";
    if (word_a != word_b || (!more_a && !more_b)) return {word_a, word_b};
  }
}

bool SameCenters(const UpdateOptions& a, const UpdateOptions& b) {
  return CentersText(a.centers) == CentersText(b.centers);
}

// Values of 1 have the scale 1 and no center. The scales of other raw values are not known.
Status CheckValues(const FactorShape& factors, const UpdateOptions& ours,
                   const UpdateOptions& theirs) {
  if (theirs.normalize && !ours.normalize) {
    return Invalid("normalize: the earlier run has normalised values: expected on, found off");
  }
  if (theirs.raw_values && ours.normalize) {
    return Invalid(
        "normalize: the earlier run was trained on values as they are, whose scales are not known: "
        "expected off, found on");
  }
  const bool may_be_centered = factors.kind == ModelKind::kLr || ours.centers.empty();
  if (!theirs.normalize && !may_be_centered) {
    return Invalid("normalize: expected no centers, which the factors of the earlier run have not");
  }
  if (!theirs.normalize || SameCenters(ours, theirs)) return {};
  return Invalid("normalize: expected the centers of the earlier run, found others");
}

Result<io::StateReader> OpenPart(const CheckpointParts& parts, uint64_t shard) {
  const std::string path = parts.Path(shard);
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) return io::StateReader::Open(path);
  return NotFound(path + ": part " + std::to_string(shard) + " of the " +
                  std::to_string(parts.shards) + " of checkpoint " + std::to_string(parts.id) +
                  " is missing: all parts must be visible to every server (a run folder on a disk "
                  "that all hosts share)");
}

}  // namespace

std::string CheckpointParts::Path(uint64_t shard) const {
  return io::CheckpointPath(only_shard ? part_folder : io::PartFolder(checkpoints, shard), id);
}

Result<io::StateWriter> WritePart(const std::string& path, const CheckpointInfo& info,
                                  const LocalStore& store,
                                  const std::function<uint64_t(uint64_t key)>& key_of,
                                  const std::function<void()>& now_and_then) {
  ASSIGN_OR_RETURN(io::StateWriter writer,
                   io::StateWriter::Create(
                       path, FieldsOf(info),
                       {.floats_per_entry = store.slot_floats(), .at_path = io::AtPath::kReplace}));
  size_t entries = 0;
  store.ForEach([&](uint64_t key, std::span<const float> state) {
    writer.Add(key_of(key), state);
    if (now_and_then && entries++ % kEntriesPerCall == 0) now_and_then();
  });
  return writer;
}

Status CheckSameRun(const CheckpointInfo& ours, const CheckpointInfo& theirs) {
  if (!SameKind(ours.factors, theirs.factors)) {
    return Invalid("model: this run has " + KindText(ours.factors) + ", the checkpoint " +
                   KindText(theirs.factors) +
                   "; a resumed run needs the options that it started with");
  }
  if (ours.factors.admit != theirs.factors.admit) {
    return Invalid("admit_factors: this run has " + std::to_string(ours.factors.admit) +
                   ", the checkpoint " + std::to_string(theirs.factors.admit) +
                   "; a resumed run needs the options that it started with");
  }
  const io::StateFields a = RunFields(ours), b = RunFields(theirs);
  for (const auto& [name, value] : a.all()) {
    const Result<std::string> found = b.Text(name);
    if (found.ok() && *found == value) continue;
    std::pair<std::string, std::string> values(value, found.ok() ? *found : "none");
    if (name == "data") values = FirstDifference(value, *found);
    return Invalid(name + ": this run has " + values.first + ", the checkpoint " + values.second +
                   "; a resumed run needs the options that it started with");
  }
  return {};
}

Status CheckContinues(const CheckpointInfo& ours, const CheckpointInfo& theirs) {
  if (!SameKind(ours.factors, theirs.factors)) {
    return Invalid("model: this run has " + KindText(ours.factors) + ", the earlier one " +
                   KindText(theirs.factors) + "; expected the same" +
                   (theirs.factors.kind == ModelKind::kLr
                        ? " (model_in takes the weights of an lr as the start of an fm)"
                        : ""));
  }
  if (ours.factors.admit != theirs.factors.admit) {
    return Invalid("admit_factors: this run has " + std::to_string(ours.factors.admit) +
                   ", the earlier one " + std::to_string(theirs.factors.admit) +
                   "; expected the same");
  }
  if (ours.update.rule != theirs.update.rule) {
    return Invalid(std::string("optimizer: this run has ") + RuleName(ours.update.rule) +
                   ", the earlier one " + RuleName(theirs.update.rule) +
                   "; its optimizer state is of no use to another optimizer");
  }
  if (theirs.intercept && !ours.intercept) {
    return Invalid("intercept: the earlier run has one, this run has none");
  }
  RETURN_IF_ERROR(CheckValues(ours.factors, ours.update, theirs.update));
  const bool hashed = ours.num_features == 0;
  if (hashed == (theirs.num_features == 0) && ours.num_features >= theirs.num_features) return {};
  return Invalid("num_features: this run has " + std::to_string(ours.num_features) +
                 ", the earlier one " + std::to_string(theirs.num_features) +
                 "; expected at least as many" + (hashed ? "" : " (0 is a hashed-key table)"));
}

Result<CheckpointInfo> ReadPartInfo(const std::string& path) {
  ASSIGN_OR_RETURN(const io::StateReader reader, io::StateReader::Open(path));
  Result<CheckpointInfo> info = Parse(reader.fields());
  if (!info.ok()) return Corrupt(path + ": " + info.status().message());
  return info;
}

Result<CheckpointInfo> ReadParts(const CheckpointParts& parts, size_t floats,
                                 const std::function<Status(const CheckpointInfo&)>& check,
                                 const TakeEntry& take) {
  std::optional<CheckpointInfo> all;
  io::StateBlock block;
  const uint64_t first = parts.only_shard.value_or(0);
  const uint64_t end = parts.only_shard ? first + 1 : parts.shards;
  for (uint64_t shard = first; shard < end; ++shard) {
    ASSIGN_OR_RETURN(io::StateReader reader, OpenPart(parts, shard));
    const std::string path = parts.Path(shard);
    Result<CheckpointInfo> info = Parse(reader.fields());
    if (!info.ok()) return Corrupt(path + ": " + info.status().message());
    if (info->shard != shard || info->shards != parts.shards ||
        (all && info->workers.size() != all->workers.size())) {
      return Corrupt(path + ": expected part " + std::to_string(shard) + " of " +
                     std::to_string(parts.shards) + ", found " + std::to_string(info->shard) +
                     " of " + std::to_string(info->shards) + ", or one of other workers");
    }
    const Status checked = check(*info);
    if (!checked.ok()) return Status(checked.code(), path + ": " + checked.message());
    const size_t expected = floats + (info->update.normalize ? 1 : 0);
    if (reader.floats_per_entry() != expected) {
      return Corrupt(path + ": expected " + std::to_string(expected) +
                     " numbers a feature, found " + std::to_string(reader.floats_per_entry()));
    }
    while (true) {
      ASSIGN_OR_RETURN(const bool more, reader.Next(block));
      if (!more) break;
      for (size_t i = 0; i < block.size(); ++i) {
        const Status taken = take(block.keys[i], block.state(i));
        if (!taken.ok()) return Corrupt(path + ": " + taken.message());
      }
    }
    if (!all) {
      all = std::move(*info);
      continue;
    }
    for (size_t w = 0; w < all->workers.size(); ++w) {
      if (info->workers[w].sequence < all->workers[w].sequence) {
        all->workers[w] = std::move(info->workers[w]);
      }
    }
  }
  return std::move(*all);
}

Result<CheckpointInfo> ReadEarlierRun(const CheckpointParts& parts, const CheckpointInfo& ours,
                                      const LocalKey& local_of, LocalStore& store) {
  UpdateOptions trained_with = ours.update;
  const auto check = [&](const CheckpointInfo& theirs) {
    trained_with = theirs.update;
    return CheckContinues(ours, theirs);
  };
  std::vector<io::ValueCenter> new_centers = ours.update.centers;
  std::optional<CenterSum> shift;               // of the intercept
  std::optional<std::vector<float>> intercept;  // its state, which comes before the last weights
  const auto take = [&](uint64_t key, std::span<const float> state) -> Status {
    if (!shift) {
      if (trained_with.normalize) new_centers.clear();  // they are the same
      shift.emplace(std::move(new_centers));
    }
    shift->Add(key, state[0]);
    const std::optional<uint64_t> local = local_of(key);
    if (!local) return {};
    if (*local != io::kInterceptKey) return store.LoadTrainedWith(trained_with, *local, state);
    intercept.emplace(state.begin(), state.end());
    return {};
  };
  ASSIGN_OR_RETURN(CheckpointInfo info, ReadParts(parts, store.rule_floats(), check, take));
  store.set_steps(info.steps);
  const auto add = static_cast<float>(shift ? shift->sum() : 0);
  if (intercept) {
    RETURN_IF_ERROR(store.LoadTrainedWith(trained_with, io::kInterceptKey, *intercept, add));
  } else if (add != 0 && local_of(io::kInterceptKey)) {
    RETURN_IF_ERROR(store.LoadWeight(io::kInterceptKey, add));
  }
  return info;
}

}  // namespace millrace::sparse
