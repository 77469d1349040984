// SPDX-License-Identifier: Apache-2.0
#include "trainer/sparse/earlier_run.h"

#include <filesystem>

#include "io/state/checkpoint_folder.h"
#include "io/state/manifest.h"
#include "trainer/run/run_folder.h"

namespace millrace::trainer {
namespace {

namespace fs = std::filesystem;

Result<EarlierRun> FromCheckpoint(const sparse::CheckpointParts& parts) {
  EarlierRun earlier;
  ASSIGN_OR_RETURN(earlier.info, sparse::ReadPartInfo(parts.Path(0)));
  earlier.checkpoint = parts;
  earlier.checkpoint->shards = earlier.info.shards;
  return earlier;
}

// RUN/checkpoints/shard-I/checkpoint-N; none if `path` is no part of a checkpoint.
Result<std::optional<sparse::CheckpointParts>> PartsOf(const std::string& path) {
  std::error_code error;
  const std::string file = fs::absolute(path, error).lexically_normal().string();
  const fs::path part_folder = fs::path(file).parent_path();
  ASSIGN_OR_RETURN(const auto files, io::ListCheckpoints(part_folder.string()));
  for (const io::CheckpointFile& found : files) {
    if (found.path != file) continue;
    const Result<sparse::CheckpointInfo> info = sparse::ReadPartInfo(file);
    RETURN_IF_ERROR(info.status());
    const sparse::CheckpointParts parts = {.checkpoints = part_folder.parent_path().string(),
                                           .id = found.steps,
                                           .shards = info->shards};
    if (parts.Path(info->shard) == file) return std::optional(parts);
    return Invalid(path + ": a part of a checkpoint of " + std::to_string(info->shards) +
                   " servers: expected it under " + parts.Path(info->shard));
  }
  return std::optional<sparse::CheckpointParts>();
}

}  // namespace

Result<EarlierRun> FindEarlierRun(const std::string& path) {
  EarlierRun earlier;
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    ASSIGN_OR_RETURN(const auto parts, PartsOf(path));
    if (parts) return FromCheckpoint(*parts);
    earlier.model = path;
    return earlier;
  }
  // Servers of a job may have another working folder.
  const std::string checkpoints = fs::absolute(path, ignored).lexically_normal() / "checkpoints";
  ASSIGN_OR_RETURN(const io::Manifest manifest, io::ReadManifest(checkpoints));
  if (manifest.checkpoint) {
    return FromCheckpoint(
        {.checkpoints = checkpoints, .id = *manifest.checkpoint, .shards = manifest.shards});
  }
  ASSIGN_OR_RETURN(earlier.model, ModelFileOf(path));
  return earlier;
}

Result<WeightSource> FindWeights(const TrainOptions& options) {
  WeightSource source;
  if (!options.continue_from.empty()) {
    ASSIGN_OR_RETURN(source.earlier, FindEarlierRun(options.continue_from));
    source.may_grow = true;
    if (source.earlier.checkpoint) return source;
    source.note =
        options.continue_from + " has no optimizer state: training starts from its weights alone";
  } else if (!options.model_in.empty()) {
    source.earlier.model = options.model_in;
    source.note = "model_in: the weights of " + options.model_in +
                  " without optimizer state (continue takes both)";
  }
  return source;
}

}  // namespace millrace::trainer
