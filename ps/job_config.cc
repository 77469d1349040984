// SPDX-License-Identifier: Apache-2.0
#include "ps/job_config.h"

#include <errno.h>
#include <sys/random.h>

#include <utility>

namespace millrace::ps {
namespace {

constexpr uint64_t kMaxProcesses = 4096;
constexpr std::pair<Mode, const char*> kModes[] = {
    {Mode::kSync, "sync"}, {Mode::kAsync, "async"}, {Mode::kSsp, "ssp"}};
// Values of the field "model"; a factorization machine has the name of its kind.
constexpr char kDenseModel[] = "dense", kLinearModel[] = "lr";

}  // namespace

Status CheckProcesses(const char* name, uint64_t value) {
  if (value >= 1 && value <= kMaxProcesses) return {};
  return Invalid(std::string(name) + ": expected 1 to " + std::to_string(kMaxProcesses) +
                 ", found " + std::to_string(value));
}

const char* ModeName(Mode mode) {
  for (const auto& [known, name] : kModes) {
    if (known == mode) return name;
  }
  return "";
}

Result<Mode> ModeFromName(std::string_view name) {
  for (const auto& [mode, known] : kModes) {
    if (known == name) return mode;
  }
  return Invalid("mode: expected sync, async or ssp, found '" + std::string(name) + "'");
}

NumberLayout JobConfig::LayoutOf(PullOf what) const {
  switch (what) {
    case PullOf::kBatch:
      return {.per_key = !dense && update.normalize ? size_t{2} : size_t{1},
              .per_feature = factors.width()};
    case PullOf::kWeights:
      return {.per_key = 1};
    case PullOf::kFactors:
      return {.per_key = 0, .per_feature = factors.width()};
  }
  return {};
}

Status JobConfig::Validate() const {
  RETURN_IF_ERROR(CheckProcesses("num_workers", num_workers));
  RETURN_IF_ERROR(CheckProcesses("num_shards", num_shards));
  if (replicas_to_aggregate > num_workers) {
    return Invalid("replicas_to_aggregate: expected at most the " + std::to_string(num_workers) +
                   " workers, found " + std::to_string(replicas_to_aggregate));
  }
  if (replicas_to_aggregate > 0 && mode != Mode::kSync) {
    return Invalid("replicas_to_aggregate: expected mode sync, found " +
                   std::string(ModeName(mode)));
  }
  RETURN_IF_ERROR(factors.Validate());
  if (dense && factors.kind != sparse::ModelKind::kLr) {
    return Invalid("factors: expected none beside the dense blocks of a net");
  }
  return dense ? dense->Validate() : update.Validate();
}

io::StateFields JobConfig::Fields() const {
  io::StateFields fields;
  fields.AddUint("num_workers", num_workers);
  fields.AddUint("num_shards", num_shards);
  fields.Add("mode", ModeName(mode));
  fields.AddUint("staleness", staleness);
  fields.AddUint("replicas_to_aggregate", replicas_to_aggregate);
  fields.AddUint("num_features", num_features);
  fields.AddUint("intercept", intercept ? 1 : 0);
  if (dense) {
    fields.Add("model", kDenseModel);
    dense->AddTo(fields);
  } else {
    if (factors.kind == sparse::ModelKind::kLr) fields.Add("model", kLinearModel);
    AddFactorShape(factors, fields);
    AddUpdateOptions(update, fields);
  }
  fields.AddUint("zstd", zstd ? 1 : 0);
  fields.AddUint("bf16", bf16 ? 1 : 0);
  fields.Add("data", data);
  return fields;
}

Result<JobConfig> JobConfig::From(const io::StateFields& fields) {
  JobConfig config;
  ASSIGN_OR_RETURN(config.num_workers, fields.Uint("num_workers"));
  ASSIGN_OR_RETURN(config.num_shards, fields.Uint("num_shards"));
  ASSIGN_OR_RETURN(const std::string mode, fields.Text("mode"));
  ASSIGN_OR_RETURN(config.mode, ModeFromName(mode));
  ASSIGN_OR_RETURN(config.staleness, fields.Uint("staleness"));
  ASSIGN_OR_RETURN(config.replicas_to_aggregate, fields.Uint("replicas_to_aggregate"));
  ASSIGN_OR_RETURN(config.num_features, fields.Uint("num_features"));
  ASSIGN_OR_RETURN(const uint64_t intercept, fields.Uint("intercept"));
  config.intercept = intercept != 0;
  ASSIGN_OR_RETURN(const std::string model, fields.Text("model"));
  if (model == kDenseModel) {
    ASSIGN_OR_RETURN(config.dense, sparse::DenseOptions::From(fields));
  } else {
    if (model != kLinearModel) {
      ASSIGN_OR_RETURN(config.factors, sparse::FactorShapeFrom(fields));
    }
    ASSIGN_OR_RETURN(config.update, sparse::UpdateOptionsFrom(fields));
  }
  ASSIGN_OR_RETURN(const uint64_t zstd, fields.Uint("zstd"));
  ASSIGN_OR_RETURN(const uint64_t bf16, fields.Uint("bf16"));
  config.zstd = zstd != 0;
  config.bf16 = bf16 != 0;
  ASSIGN_OR_RETURN(config.data, fields.Text("data"));
  RETURN_IF_ERROR(config.Validate());
  return config;
}

Result<uint64_t> DrawIdentity() {
  uint64_t identity = 0;
  if (::getrandom(&identity, sizeof identity, 0) != sizeof identity) {
    return IoError("no random bytes for the identity of the process", errno);
  }
  return identity | 1;  // 0 stands for no identity
}

Status CheckSameJob(const io::StateFields& ours, const io::StateFields& theirs) {
  for (const auto& [name, value] : ours.all()) {
    const Result<std::string> found = theirs.Text(name);
    if (found.ok() && *found == value) continue;
    return Invalid("the job has " + name + " " + value + ", found " +
                   (found.ok() ? *found : "none"));
  }
  return {};
}

}  // namespace millrace::ps
