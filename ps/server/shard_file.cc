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

constexpr char kKind[] = "shard";
constexpr size_t kEntriesPerCall = 16;  // of ShardOptions::while_saving
constexpr char kDigits[] = "0123456789abcdef";

// States are any bytes; fields are lines of text.
std::string ToHex(const std::string& bytes) {
  std::string text = "x";
  for (const char c : bytes) {
    const auto byte = static_cast<uint8_t>(c);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

Result<std::string> FromHex(const std::string& text) {
  std::string bytes;
  const std::string_view digits(kDigits, 16);
  for (size_t i = 1; i + 1 < text.size(); i += 2) {
    const size_t high = digits.find(text[i]), low = digits.find(text[i + 1]);
    if (high == digits.npos || low == digits.npos) break;
    bytes += static_cast<char>(high << 4 | low);
  }
  if (text.size() == 2 * bytes.size() + 1 && text[0] == 'x') return bytes;
  return Corrupt("expected x and pairs of hexadecimal digits, found '" + text + "'");
}

std::string WorkerField(size_t worker, const char* name) {
  return "worker." + std::to_string(worker) + "." + name;
}

using WorkerStates = std::vector<std::pair<uint64_t, std::string>>;  // sequence, state

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
    sequences[w] = std::max(sequences[w], workers[w].first);
  }
  std::vector<float> state;
  for (size_t p = 1; p < content.planes.size(); ++p) {
    state.insert(state.end(), content.planes[p].begin(), content.planes[p].end());
  }
  return table.Load(block, content.planes[0], state, steps, sequences);
}

size_t FloatsPerEntry(const JobConfig& config, const sparse::LocalStore& store) {
  return config.dense ? 1 + config.dense->state_planes() : store.slot_floats();
}

struct Restored {
  JobProgress progress;
  uint64_t steps = 0;
  std::string chief_state;
  WorkerStates workers;
};

Result<Restored> ReadFields(const io::StateFields& fields, size_t workers) {
  Restored restored;
  ASSIGN_OR_RETURN(restored.steps, fields.Uint("steps"));
  ASSIGN_OR_RETURN(restored.progress.step, fields.Uint("progress.step"));
  ASSIGN_OR_RETURN(restored.progress.examples, fields.Uint("progress.examples"));
  ASSIGN_OR_RETURN(restored.progress.loss, fields.Double("progress.loss"));
  ASSIGN_OR_RETURN(restored.progress.weight, fields.Double("progress.weight"));
  ASSIGN_OR_RETURN(const std::string chief, fields.Text("chief_state"));
  ASSIGN_OR_RETURN(restored.chief_state, FromHex(chief));
  for (size_t i = 0; i < workers; ++i) {
    ASSIGN_OR_RETURN(const uint64_t sequence, fields.Uint(WorkerField(i, "sequence")));
    ASSIGN_OR_RETURN(const std::string hex, fields.Text(WorkerField(i, "state")));
    ASSIGN_OR_RETURN(std::string state, FromHex(hex));
    restored.workers.emplace_back(sequence, std::move(state));
  }
  return restored;
}

}  // namespace

Status ShardFile::Save(Shard& shard, const CheckpointRequest& request) {
  TRACE_SCOPE("save_checkpoint", profiler::Cat::kCheckpoint);
  const std::string& folder = shard.options_.checkpoints;
  RETURN_IF_ERROR(shard.claim_->Change([&](io::Manifest&) {
    io::RemoveTemporaryFiles(folder);
    return Status();
  }));
  io::StateFields fields;
  fields.Add("kind", kKind);
  fields.AddUint("shard", shard.options_.shard);
  const io::StateFields job = shard.config_->Fields();
  for (const auto& [name, value] : job.all()) fields.Add(name, value);
  fields.AddUint("steps", shard.store_->steps());
  fields.AddUint("progress.step", shard.progress_.step);
  fields.AddUint("progress.examples", shard.progress_.examples);
  fields.AddDouble("progress.loss", shard.progress_.loss);
  fields.AddDouble("progress.weight", shard.progress_.weight);
  fields.Add("chief_state", ToHex(request.chief_state));
  for (size_t i = 0; i < shard.workers_.size(); ++i) {
    fields.AddUint(WorkerField(i, "sequence"), shard.workers_[i].applied);
    fields.Add(WorkerField(i, "state"), ToHex(shard.workers_[i].applied_state));
  }
  if (shard.dense_) AddDenseFields(*shard.dense_, fields);
  ASSIGN_OR_RETURN(
      io::StateWriter writer,
      io::StateWriter::Create(io::CheckpointPath(folder, request.id), fields,
                              {.floats_per_entry = FloatsPerEntry(*shard.config_, *shard.store_),
                               .at_path = io::AtPath::kReplace}));
  if (shard.dense_) {
    WriteDense(*shard.dense_, writer);
  } else {
    size_t entries = 0;
    shard.store_->ForEach([&](uint64_t key, std::span<const float> state) {
      writer.Add(key, state);
      if (shard.options_.while_saving && entries++ % kEntriesPerCall == 0) {
        shard.options_.while_saving();
      }
    });
  }
  return shard.claim_->Change([&](io::Manifest& manifest) -> Status {
    RETURN_IF_ERROR(writer.Finish());
    manifest.checkpoint = request.id;
    manifest.previous = request.committed;
    const uint64_t kept[] = {request.id, request.committed.value_or(request.id)};
    io::KeepCheckpoints(folder, kept);
    return {};
  });
}

Status ShardFile::Restore(Shard& shard, uint64_t id) {
  TRACE_SCOPE("load_checkpoint", profiler::Cat::kCheckpoint);
  const std::string path = io::CheckpointPath(shard.options_.checkpoints, id);
  ASSIGN_OR_RETURN(io::StateReader reader, io::StateReader::Open(path));
  const Result<std::string> kind = reader.fields().Text("kind");
  if (!kind.ok() || *kind != kKind) return Corrupt(path + ": expected a shard's checkpoint");
  const Status same = CheckSameJob(shard.config_->Fields(), reader.fields());
  if (!same.ok()) return Invalid(path + ": " + same.message());
  const Result<uint64_t> number = reader.fields().Uint("shard");
  if (!number.ok() || *number != shard.options_.shard) {
    return Invalid(path + ": expected shard " + std::to_string(shard.options_.shard));
  }
  ASSIGN_OR_RETURN(Restored restored, ReadFields(reader.fields(), shard.workers_.size()));
  ASSIGN_OR_RETURN(auto store,
                   sparse::LocalStore::Create(shard.store_->shape(), shard.store_->options()));
  std::map<uint64_t, DenseBlock> blocks;
  if (reader.floats_per_entry() != FloatsPerEntry(*shard.config_, *shard.store_)) {
    return Corrupt(path + ": expected " +
                   std::to_string(FloatsPerEntry(*shard.config_, *shard.store_)) +
                   " numbers a feature, found " + std::to_string(reader.floats_per_entry()));
  }
  io::StateBlock block;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader.Next(block));
    if (!more) break;
    for (size_t i = 0; i < block.size(); ++i) {
      if (!shard.dense_) {
        RETURN_IF_ERROR(store->Load(block.keys[i], block.state(i)));
      } else {
        blocks[block.keys[i] >> 32].Add(block.state(i));
      }
    }
  }
  if (shard.dense_) {
    DenseTable dense(*shard.config_->dense, shard.workers_.size());
    for (auto& [b, content] : blocks) {
      RETURN_IF_ERROR(LoadDense(reader.fields(), b, content, restored.workers, dense));
    }
    dense.Close();
    shard.dense_ = std::move(dense);
  }
  store->set_steps(restored.steps);
  shard.store_ = std::move(store);
  shard.progress_ = restored.progress;
  shard.chief_state_ = std::move(restored.chief_state);
  for (size_t i = 0; i < shard.workers_.size(); ++i) {
    WorkerRecord& worker = shard.workers_[i];
    worker.received = worker.applied = restored.workers[i].first;
    worker.received_state = worker.applied_state = std::move(restored.workers[i].second);
  }
  return {};
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
