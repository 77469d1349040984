// Which processes a job has, and on which host each of them runs.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/status.h"

namespace millrace::tools {

enum class Role { kServer, kWorker };

struct ProcessId {
  Role role = Role::kWorker;
  size_t index = 0;
  bool operator==(const ProcessId&) const = default;
};

// The worker that tests, saves and keeps the run folder.
inline bool IsChief(ProcessId id) { return id.role == Role::kWorker && id.index == 0; }

// "ps 0", "worker 2"
std::string NameOf(ProcessId id);

struct JobShape {
  size_t num_ps = 0;
  size_t num_workers = 1;
  bool operator==(const JobShape&) const = default;
};

constexpr size_t kMaxProcesses = 4096;  // of one job

// single, cluster or cluster2
Result<JobShape> ShapeOfDeployMode(std::string_view name);
// Workers without servers share nothing, so only one of them may be alone.
Status CheckShape(const JobShape& shape);

struct PlacedProcess {
  ProcessId id;
  size_t host = 0;  // an index
};

// Servers first. Both kinds are dealt to the hosts in turn, each from the first host on: so server
// 0 shares its host with the chief.
std::vector<PlacedProcess> Place(const JobShape& shape, size_t num_hosts);

}  // namespace millrace::tools
