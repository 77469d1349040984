// SPDX-License-Identifier: Apache-2.0
#include "ps/server/shard_file.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "io/state/checkpoint_folder.h"
#include "io/state/state_file.h"
#include "profiler/trace.h"
#include "ps/server/shard.h"

namespace millrace::ps {
namespace {

constexpr char kDenseKind[] = "shard";

std::string WorkerField(size_t worker, const char* name) {
  return "worker." + std::to_string(worker) + "." + name;
}

using WorkerStates = std::vector<sparse::WorkerPosition>;

// Dense blocks are entries under block << 32 | index, of the weight and the rule's numbers next to
// it.
struct DenseBlock {
  std::vector<std::vector<float>> planes;  // weights, then state

  void Add(std::span<const float> numbers) {
    planes.resize(numbers.size());
    for (size_t p = 0; p < numbers.size(); ++p) planes[p].push_back(numbers[p]);
  }
};

std::string BlockField(uint64_t block, const std::string& name) {
  return "dense_block." + std::to_string(block) + "." + name;
}

void AddDenseFields(const DenseTable& table, io::StateFields& fields) {
  for (size_t b = 0; b < table.size(); ++b) {
    if (!table.Has(b)) continue;
    fields.AddUint(BlockField(b, "steps"), table.steps(b));
    for (size_t w = 0; w < table.sequences(b).size(); ++w) {
      fields.AddUint(BlockField(b, "sequence." + std::to_string(w)), table.sequences(b)[w]);
    }
  }
}

void WriteDense(const DenseTable& table, io::StateWriter& writer) {
  std::vector<float> numbers;
  for (size_t b = 0; b < table.size(); ++b) {
    if (!table.Has(b)) continue;
    const std::span<const float> weights = table.weights(b), state = table.state(b);
    for (size_t i = 0; i < weights.size(); ++i) {
      numbers.assign(1, weights[i]);
      for (size_t at = i; at < state.size(); at += weights.size()) numbers.push_back(state[at]);
      writer.Add(uint64_t{b} << 32 | i, numbers);
    }
  }
}

// A gradient of a step that was made without it waits for nothing after a restart: it counts as
// dropped.
Status LoadDense(const io::StateFields& fields, uint64_t block, const DenseBlock& content,
                 const WorkerStates& workers, DenseTable& table) {
  ASSIGN_OR_RETURN(const uint64_t steps, fields.Uint(BlockField(block, "steps")));
  std::vector<uint64_t> sequences(workers.size());
  for (size_t w = 0; w < workers.size(); ++w) {
    ASSIGN_OR_RETURN(sequences[w], fields.Uint(BlockField(block, "sequence." + std::to_string(w))));
    sequences[w] = std::max(sequences[w], workers[w].sequence);
  }
  std::vector<float> state;
  for (size_t p = 1; p < content.planes.size(); ++p) {
    state.insert(state.end(), content.planes[p].begin(), content.planes[p].end());
  }
  return table.Load(block, content.planes[0], state, steps, sequences);
}

// The part of a job with dense blocks. It belongs to the job's servers and workers: blocks are cut
// to the number of servers.
Result<io::StateWriter> WriteDensePart(const std::string& path, const JobConfig& config,
                                       const sparse::CheckpointInfo& info,
                                       const DenseTable& table) {
  io::StateFields fields;
  fields.Add("kind", kDenseKind);
  fields.AddUint("shard", info.shard);
  const io::StateFields job = config.Fields();
  for (const auto& [name, value] : job.all()) fields.Add(name, value);
  fields.AddUint("steps", info.steps);
  fields.AddUint("examples", info.examples);
  fields.AddDouble("loss", info.loss);
  fields.AddDouble("weight", info.weight);
  fields.AddBytes("chief_state", info.chief_state);
  for (size_t i = 0; i < info.workers.size(); ++i) {
    fields.AddUint(WorkerField(i, "sequence"), info.workers[i].sequence);
    fields.AddBytes(WorkerField(i, "state"), info.workers[i].state);
  }
  AddDenseFields(table, fields);
  ASSIGN_OR_RETURN(io::StateWriter writer,
                   io::StateWriter::Create(path, fields,
                                           {.floats_per_entry = 1 + config.dense->state_planes(),
                                            .at_path = io::AtPath::kReplace}));
  WriteDense(table, writer);
  return writer;
}

// Everything is read and checked before `table` is changed.
Result<sparse::CheckpointInfo> ReadDensePart(const std::string& path, const JobConfig& config,
                                             size_t shard, DenseTable& table) {
  ASSIGN_OR_RETURN(io::StateReader reader, io::StateReader::Open(path));
  const io::StateFields& fields = reader.fields();
  const Result<std::string> kind = fields.Text("kind");
  if (!kind.ok() || *kind != kDenseKind) {
    return Corrupt(path + ": expected the checkpoint of a net on servers");
  }
  const Status same = CheckSameJob(config.Fields(), fields);
  if (!same.ok()) return Invalid(path + ": " + same.message());
  const Result<uint64_t> number = fields.Uint("shard");
  if (!number.ok() || *number != shard) {
    return Invalid(path + ": expected shard " + std::to_string(shard));
  }
  sparse::CheckpointInfo info;
  ASSIGN_OR_RETURN(info.steps, fields.Uint("steps"));
  ASSIGN_OR_RETURN(info.examples, fields.Uint("examples"));
  ASSIGN_OR_RETURN(info.loss, fields.Double("loss"));
  ASSIGN_OR_RETURN(info.weight, fields.Double("weight"));
  ASSIGN_OR_RETURN(info.chief_state, fields.Bytes("chief_state"));
  info.workers.resize(config.num_workers);
  for (size_t i = 0; i < info.workers.size(); ++i) {
    ASSIGN_OR_RETURN(info.workers[i].sequence, fields.Uint(WorkerField(i, "sequence")));
    ASSIGN_OR_RETURN(info.workers[i].state, fields.Bytes(WorkerField(i, "state")));
  }
  const size_t floats = 1 + config.dense->state_planes();
  if (reader.floats_per_entry() != floats) {
    return Corrupt(path + ": expected " + std::to_string(floats) + " numbers an entry, found " +
                   std::to_string(reader.floats_per_entry()));
  }
  std::map<uint64_t, DenseBlock> blocks;
  io::StateBlock block;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader.Next(block));
    if (!more) break;
    for (size_t i = 0; i < block.size(); ++i) blocks[block.keys[i] >> 32].Add(block.state(i));
  }
  DenseTable dense(*config.dense, config.num_workers);
  for (auto& [b, content] : blocks) {
    RETURN_IF_ERROR(LoadDense(fields, b, content, info.workers, dense));
  }
  dense.Close();
  table = std::move(dense);
  return info;
}

}  // namespace

sparse::CheckpointInfo ShardFile::InfoOf(const Shard& shard) {
  return {.shard = shard.options_.shard,
          .shards = shard.options_.num_shards,
          .num_features = shard.config_->num_features,
          .intercept = shard.config_->intercept,
          .factors = shard.config_->factors,
          .update = shard.config_->update,
          .data = shard.config_->data};
}

Status ShardFile::Save(Shard& shard, const CheckpointRequest& request) {
  TRACE_SCOPE("save_checkpoint", profiler::Cat::kCheckpoint);
  const std::string& folder = shard.options_.checkpoints;
  RETURN_IF_ERROR(shard.claim_->Change([&](io::Manifest&) {
    io::RemoveTemporaryFiles(folder);
    return Status();
  }));
  sparse::CheckpointInfo info = InfoOf(shard);
  info.steps = shard.progress_.step;
  info.examples = shard.progress_.examples;
  info.loss = shard.progress_.loss;
  info.weight = shard.progress_.weight;
  info.chief_state = request.chief_state;
  for (const WorkerRecord& worker : shard.workers_) {
    info.workers.push_back({.sequence = worker.applied, .state = worker.applied_state});
  }
  const std::string path = io::CheckpointPath(folder, request.id);
  const auto key_of = [&](uint64_t local) {
    return shard.sharding_->KeyOf(shard.options_.shard, local);
  };
  ASSIGN_OR_RETURN(io::StateWriter writer,
                   shard.dense_ ? WriteDensePart(path, *shard.config_, info, *shard.dense_)
                                : sparse::WritePart(path, info, *shard.store_, key_of,
                                                    shard.options_.while_saving));
  return shard.claim_->CommitPart(writer, request.id, request.committed);
}

Status ShardFile::Restore(Shard& shard, const RestoreRequest& request) {
  TRACE_SCOPE("load_checkpoint", profiler::Cat::kCheckpoint);
  if (shard.dense_) return RestoreDense(shard, request);
  const bool resumes = request.earlier_run.empty();
  // The parts of the other shards are beside this one's.
  const std::filesystem::path own(shard.options_.checkpoints);
  sparse::CheckpointParts parts = {
      .checkpoints = resumes ? own.parent_path().string() : request.earlier_run,
      .id = request.id,
      .shards = request.shards};
  if (resumes && request.shards == shard.options_.num_shards) {
    parts.only_shard = shard.options_.shard;
    parts.part_folder = shard.options_.checkpoints;
  }
  ASSIGN_OR_RETURN(auto store,
                   sparse::LocalStore::Create(shard.store_->shape(), shard.store_->options()));
  const sparse::CheckpointInfo mine = InfoOf(shard);
  const auto local_of = [&](uint64_t key) -> std::optional<uint64_t> {
    const Sharding::Place place = shard.sharding_->Of(key);
    if (place.shard != shard.options_.shard) return std::nullopt;
    return place.local;
  };
  const auto check = [&](const sparse::CheckpointInfo& theirs) {
    return sparse::CheckSameRun(mine, theirs);
  };
  const auto take = [&](uint64_t key, std::span<const float> state) -> Status {
    const std::optional<uint64_t> local = local_of(key);
    return local ? store->Load(*local, state) : Status();
  };
  ASSIGN_OR_RETURN(sparse::CheckpointInfo info,
                   resumes ? sparse::ReadParts(parts, store->rule_floats(), check, take)
                           : sparse::ReadEarlierRun(parts, mine, local_of, *store));
  store->set_steps(info.steps);
  shard.store_ = std::move(store);
  TakeProgress(shard, std::move(info), resumes);
  return {};
}

Status ShardFile::RestoreDense(Shard& shard, const RestoreRequest& request) {
  if (!request.earlier_run.empty()) return Invalid("a net cannot continue from an earlier run");
  if (request.shards != shard.options_.num_shards) {
    return Invalid("a net's checkpoints belong to their number of servers: they are of " +
                   std::to_string(request.shards) + " servers, this job has " +
                   std::to_string(shard.options_.num_shards) +
                   "; resume with as many servers and workers as before");
  }
  const std::string path = io::CheckpointPath(shard.options_.checkpoints, request.id);
  ASSIGN_OR_RETURN(sparse::CheckpointInfo info,
                   ReadDensePart(path, *shard.config_, shard.options_.shard, *shard.dense_));
  shard.store_->set_steps(info.steps);
  TakeProgress(shard, std::move(info), /*resumes=*/true);
  return {};
}

// A run that continues counts on from the earlier one; its loss and its workers are its own.
void ShardFile::TakeProgress(Shard& shard, sparse::CheckpointInfo info, bool resumes) {
  shard.progress_ = {.step = info.steps, .examples = info.examples};
  if (!resumes) return;
  shard.progress_.loss = info.loss;
  shard.progress_.weight = info.weight;
  for (size_t i = 0; i < shard.workers_.size() && info.workers.size() == shard.workers_.size();
       ++i) {
    WorkerRecord& worker = shard.workers_[i];
    worker.received = worker.applied = info.workers[i].sequence;
    worker.received_state = worker.applied_state = info.workers[i].state;
  }
  shard.restored_ = {.chief_state = std::move(info.chief_state),
                     .workers = std::move(info.workers)};
}

std::vector<uint64_t> ShardFile::List(const std::string& folder) {
  std::vector<uint64_t> ids;
  if (folder.empty()) return ids;
  const auto files = io::ListCheckpoints(folder);
  if (!files.ok()) return ids;
  for (const io::CheckpointFile& file : *files) ids.push_back(file.steps);
  return ids;
}

}  // namespace millrace::ps
