// SPDX-License-Identifier: Apache-2.0
#include "io/state/manifest.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>

#include "io/state/checkpoint_folder.h"
#include "profiler/clock.h"

namespace millrace::io {
namespace {

constexpr char kKind[] = "manifest";
// Longer than writing a manifest and syncing a checkpoint takes on a slow disk.
constexpr int64_t kLockNs = int64_t{60} * 1000000000;
constexpr std::chrono::milliseconds kLockPause(10);

std::string ManifestPath(const std::string& folder) { return folder + "/manifest"; }

void AddOptional(const char* name, const std::optional<uint64_t>& value, StateFields& fields) {
  if (value) fields.AddUint(name, *value);
}

// A field that is absent is no error.
Result<std::optional<uint64_t>> OptionalUint(const StateFields& fields, const char* name) {
  if (!fields.Text(name).ok()) return std::optional<uint64_t>();
  ASSIGN_OR_RETURN(const uint64_t value, fields.Uint(name));
  return std::optional(value);
}

Status Write(const std::string& folder, const Manifest& manifest) {
  StateFields fields;
  fields.Add("kind", kKind);
  fields.AddUint("epoch", manifest.epoch);
  fields.AddUint("owner", manifest.owner);
  AddOptional("checkpoint", manifest.checkpoint, fields);
  fields.AddUint("shards", manifest.shards);
  AddOptional("previous", manifest.previous, fields);
  fields.AddUint("previous_shards", manifest.previous_shards);
  ASSIGN_OR_RETURN(StateWriter writer, StateWriter::Create(ManifestPath(folder), fields,
                                                           {.at_path = AtPath::kReplace}));
  return writer.Finish();
}

Result<Manifest> Parse(const StateFields& fields) {
  const Result<std::string> kind = fields.Text("kind");
  if (!kind.ok() || *kind != kKind) return Corrupt("expected a manifest of checkpoints");
  Manifest manifest;
  ASSIGN_OR_RETURN(manifest.epoch, fields.Uint("epoch"));
  ASSIGN_OR_RETURN(manifest.owner, fields.Uint("owner"));
  ASSIGN_OR_RETURN(manifest.shards, fields.Uint("shards"));
  ASSIGN_OR_RETURN(manifest.checkpoint, OptionalUint(fields, "checkpoint"));
  ASSIGN_OR_RETURN(manifest.previous, OptionalUint(fields, "previous"));
  ASSIGN_OR_RETURN(manifest.previous_shards, fields.Uint("previous_shards"));
  if (manifest.epoch == 0) return Corrupt("epoch: expected 1 or more, found 0");
  return manifest;
}

// An advisory lock on the folder, held only while the folder is changed. Where the file system has
// no locks, the check of the owner alone keeps processes apart.
class FolderLock {
 public:
  static Result<FolderLock> Take(const std::string& folder, int64_t wait_ns = kLockNs) {
    const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return IoError("cannot open the folder " + folder, errno);
    FolderLock lock(fd);
    const int64_t deadline_ns = NowNs() + wait_ns;
    while (::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      if (NowNs() >= deadline_ns) {
        return Invalid(folder + " is locked by another process, which may be suspended: end it");
      }
      std::this_thread::sleep_for(kLockPause);  // flock has no time limit
    }
    return lock;
  }
  FolderLock(FolderLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock() {
    if (fd_ >= 0) ::close(fd_);
  }

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  int fd_;
};

std::string EpochText(uint64_t epoch) { return "epoch " + std::to_string(epoch); }

}  // namespace

Result<Manifest> ReadManifest(const std::string& folder) {
  const std::string path = ManifestPath(folder);
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, error))) return Manifest();
  ASSIGN_OR_RETURN(StateReader reader, StateReader::Open(path));
  Result<Manifest> manifest = Parse(reader.fields());
  if (!manifest.ok()) return Corrupt(path + ": " + manifest.status().message());
  StateBlock block;
  ASSIGN_OR_RETURN(const bool more, reader.Next(block));
  if (more) return Corrupt(path + ": expected no entries");
  return manifest;
}

Result<Manifest> ReadManifestToResume(const std::string& folder) {
  Result<Manifest> manifest = ReadManifest(folder);
  if (!manifest.ok()) {
    return Invalid(
        manifest.status().message() +
        ": nothing says which checkpoint to resume from; continue from a checkpoint in " + folder +
        " in a new run, or start one elsewhere");
  }
  if (manifest->epoch > 0 || !HasCheckpoints(folder)) return manifest;
  return Invalid(folder +
                 " has checkpoints, but no manifest that names one: resume where the run " +
                 "was before, continue from one of them in a new run, or start one elsewhere");
}

Result<FolderClaim> FolderClaim::Take(const std::string& folder, const Manifest& claim,
                                      bool take_over) {
  // A server's folder is in that of all servers.
  const std::string all = std::filesystem::path(folder).parent_path().string();
  if (!all.empty()) RETURN_IF_ERROR(MakeRealFolder(all));
  RETURN_IF_ERROR(MakeRealFolder(folder));
  ASSIGN_OR_RETURN(const FolderLock lock, FolderLock::Take(folder));
  ASSIGN_OR_RETURN(const Manifest found, ReadManifest(folder));
  const bool same = found.epoch == claim.epoch && (found.owner == claim.owner || take_over);
  if (found.epoch >= claim.epoch && !same) {
    return Invalid(folder + " belongs to " + EpochText(found.epoch) + " of its run, found " +
                   EpochText(claim.epoch) + ": the run was started again in the meantime");
  }
  RemoveTemporaryFiles(folder);
  RETURN_IF_ERROR(Write(folder, claim));
  return FolderClaim(folder, claim);
}

Status FolderClaim::Change(const std::function<Status(Manifest&)>& change) {
  ASSIGN_OR_RETURN(const FolderLock lock, FolderLock::Take(folder_));
  ASSIGN_OR_RETURN(const Manifest found, ReadManifest(folder_));
  if (found.epoch != manifest_.epoch || found.owner != manifest_.owner) {
    return Invalid(folder_ + " belongs to " + EpochText(found.epoch) +
                   " of its run now, this process to " + EpochText(manifest_.epoch) +
                   ": the run was started again in the meantime");
  }
  Manifest next = manifest_;
  RETURN_IF_ERROR(change(next));
  if (next.checkpoint != manifest_.checkpoint || next.previous != manifest_.previous) {
    RETURN_IF_ERROR(Write(folder_, next));
  }
  manifest_ = next;
  return {};
}

Status FolderClaim::CommitPart(StateWriter& part, uint64_t id, std::optional<uint64_t> committed) {
  return Change([&](Manifest& manifest) -> Status {
    RETURN_IF_ERROR(part.Finish());
    manifest.checkpoint = id;
    manifest.previous = committed;
    const uint64_t kept[] = {id, committed.value_or(id)};
    KeepCheckpoints(folder_, kept);
    return {};
  });
}

Status FolderClaim::CommitCheckpoint(uint64_t id, uint64_t shards) {
  return Change([&](Manifest& manifest) -> Status {
    if (manifest.checkpoint == id) return {};
    manifest.previous_shards = std::exchange(manifest.shards, shards);
    manifest.previous = std::exchange(manifest.checkpoint, id);
    std::error_code ignored;
    for (uint64_t shard = std::max(manifest.shards, manifest.previous_shards);; ++shard) {
      const std::string unused = PartFolder(folder_, shard);
      if (!std::filesystem::exists(unused, ignored)) return {};
      KeepCheckpoints(unused, {});
      // Not the manifest that a process is writing.
      if (FolderLock::Take(unused, /*wait_ns=*/0).ok()) RemoveTemporaryFiles(unused);
    }
  });
}

}  // namespace millrace::io
