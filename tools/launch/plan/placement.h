// SPDX-License-Identifier: Apache-2.0
// Which processes a job has, on which host each runs, and at which address it listens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/status.h"

namespace millrace::launch {

enum class Role { kServer, kWorker };

struct ProcessId {
  Role role = Role::kWorker;
  size_t index = 0;
  bool operator==(const ProcessId&) const = default;
};

// The worker that evaluates, saves the model and owns the run folder.
inline bool IsChief(ProcessId id) { return id.role == Role::kWorker && id.index == 0; }

// "ps 0", "worker 2"
std::string NameOf(ProcessId id);

struct JobShape {
  size_t num_ps = 0;
  size_t num_workers = 1;
  bool operator==(const JobShape&) const = default;
};

constexpr size_t kMaxProcesses = 4096;  // of one job

// `name` is single, cluster or cluster2.
Result<JobShape> ShapeOfDeployMode(std::string_view name);
// Several workers need at least one server.
Status CheckShape(const JobShape& shape);

struct PlacedProcess {
  ProcessId id;
  size_t host = 0;  // an index
};

// Servers come first. Servers and workers are each assigned to the hosts in turn, from the first
// host on, so server 0 shares its host with the chief.
std::vector<PlacedProcess> Place(const JobShape& shape, size_t num_hosts);

// The process of a rank of mpirun or srun: the first num_ps ranks are servers.
ProcessId ProcessOfRank(size_t rank, const JobShape& shape);

// "10.0.0.1:80", "[::1]:80"
std::string JoinHostPort(std::string_view host, uint16_t port);

// True for localhost, 127.x.y.z and ::1, which other hosts cannot reach.
bool IsLoopback(std::string_view host);

// The host of an ssh destination: "node" of "me@node".
std::string HostOfDestination(std::string_view destination);

// The port in the line "millrace-ps: shard I of S listening on HOST:PORT"; nothing if `line` is
// another line or has other numbers than `index` and `num_ps`.
std::optional<uint16_t> ListeningPort(std::string_view line, size_t index, size_t num_ps);

}  // namespace millrace::launch
