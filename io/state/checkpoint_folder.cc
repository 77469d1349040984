// SPDX-License-Identifier: Apache-2.0
#include "io/state/checkpoint_folder.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string_view>

namespace millrace::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "checkpoint-";
constexpr std::string_view kPartFolder = "shard-";
constexpr std::string_view kTemporary = ".tmp-";  // as io::OutputFile names its temporary files
constexpr std::string_view kTemporaryManifest = "manifest.tmp-";

struct ParsedName {
  uint64_t steps = 0;
  std::string_view rest;  // after the number
};

std::optional<ParsedName> ParseName(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  ParsedName parsed;
  const char* end = name.data() + name.size();
  const auto number = std::from_chars(name.data(), end, parsed.steps);
  if (number.ec != std::errc()) return std::nullopt;
  parsed.rest = {number.ptr, static_cast<size_t>(end - number.ptr)};
  return parsed;
}

// Names of the folder's entries; none if it does not exist.
Result<std::vector<std::string>> Names(const std::string& folder) {
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  std::vector<std::string> names;
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    names.push_back(entries->path().filename().string());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return IoError(folder + ": cannot list the folder", error.value());
  }
  return names;
}

// Not followed: a link to a folder is none.
bool IsRealFolder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(fs::symlink_status(path, ignored));
}

// Removes a regular file, and leaves everything else.
void RemoveRegular(const std::string& path) {
  std::error_code ignored;
  if (fs::is_regular_file(fs::symlink_status(path, ignored))) fs::remove(path, ignored);
}

}  // namespace

Status MakeRealFolder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (IsRealFolder(path)) return {};
  if (error) return IoError("cannot create the folder " + path, error.value());
  return Invalid(path + ": expected a folder, found a symbolic link");
}

std::string CheckpointPath(const std::string& folder, uint64_t steps) {
  char number[32];
  std::snprintf(number, sizeof number, "%012llu", static_cast<unsigned long long>(steps));
  return folder + "/" + std::string(kPrefix) + number;
}

std::string PartFolder(const std::string& checkpoints, uint64_t shard) {
  return checkpoints + "/" + std::string(kPartFolder) + std::to_string(shard);
}

Result<std::vector<CheckpointFile>> ListCheckpoints(const std::string& folder) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, Names(folder));
  std::vector<CheckpointFile> files;
  for (const std::string& name : names) {
    const auto parsed = ParseName(name);
    if (!parsed || !parsed->rest.empty()) continue;
    const std::string path = CheckpointPath(folder, parsed->steps);
    std::error_code ignored;
    if (path == folder + "/" + name && fs::is_regular_file(path, ignored))
      files.push_back({parsed->steps, path});
  }
  std::sort(files.begin(), files.end(),
            [](const CheckpointFile& a, const CheckpointFile& b) { return a.steps > b.steps; });
  return files;
}

bool HasCheckpoints(const std::string& checkpoints) {
  const auto holds = [](const std::string& folder) {
    const auto files = ListCheckpoints(folder);
    return !files.ok() || !files->empty();
  };
  if (holds(checkpoints)) return true;
  const auto names = Names(checkpoints);
  return names.ok() && std::any_of(names->begin(), names->end(), [&](const std::string& name) {
           const std::string path = checkpoints + "/" + name;
           return name.starts_with(kPartFolder) && IsRealFolder(path) && holds(path);
         });
}

void RemoveTemporaryFiles(const std::string& folder) {
  const auto names = Names(folder);
  if (!names.ok() || !IsRealFolder(folder)) return;
  for (const std::string& name : *names) {
    const auto parsed = ParseName(name);
    const bool of_checkpoint = parsed && parsed->rest.starts_with(kTemporary);
    if (of_checkpoint || name.starts_with(kTemporaryManifest)) RemoveRegular(folder + "/" + name);
  }
}

void KeepCheckpoints(const std::string& folder, std::span<const uint64_t> steps) {
  const auto files = ListCheckpoints(folder);
  if (!files.ok() || !IsRealFolder(folder)) return;
  for (const CheckpointFile& file : *files) {
    if (std::find(steps.begin(), steps.end(), file.steps) == steps.end()) RemoveRegular(file.path);
  }
}

void RemoveOtherCheckpoints(const std::string& folder, uint64_t steps, size_t keep) {
  const auto files = ListCheckpoints(folder);
  if (!files.ok()) return;
  std::vector<uint64_t> kept = {steps};
  for (const CheckpointFile& file : *files) {
    if (file.steps < steps && kept.size() <= keep) kept.push_back(file.steps);
  }
  KeepCheckpoints(folder, kept);
}

}  // namespace millrace::io
