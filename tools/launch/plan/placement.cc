// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/plan/placement.h"

#include <charconv>

namespace millrace::launch {

std::string NameOf(ProcessId id) {
  return (id.role == Role::kServer ? "ps " : "worker ") + std::to_string(id.index);
}

Result<JobShape> ShapeOfDeployMode(std::string_view name) {
  if (name == "single") return JobShape{.num_ps = 0, .num_workers = 1};
  if (name == "cluster") return JobShape{.num_ps = 1, .num_workers = 2};
  if (name == "cluster2") return JobShape{.num_ps = 1, .num_workers = 3};
  return Invalid("--deploy_mode=" + std::string(name) +
                 ": expected single, cluster or cluster2, or --num_ps and --num_workers");
}

Status CheckShape(const JobShape& shape) {
  if (shape.num_workers == 0) return Invalid("--num_workers=0: expected at least 1");
  if (shape.num_ps == 0 && shape.num_workers > 1) {
    return Invalid("--num_ps=0 with --num_workers=" + std::to_string(shape.num_workers) +
                   ": workers share a model through servers; expected --num_ps of at least 1");
  }
  if (shape.num_ps > kMaxProcesses || shape.num_workers > kMaxProcesses - shape.num_ps) {
    return Invalid("--num_ps and --num_workers: expected at most " + std::to_string(kMaxProcesses) +
                   " processes in all");
  }
  return {};
}

std::vector<PlacedProcess> Place(const JobShape& shape, size_t num_hosts) {
  std::vector<PlacedProcess> placed;
  for (size_t i = 0; i < shape.num_ps; ++i) placed.push_back({{Role::kServer, i}, i % num_hosts});
  for (size_t i = 0; i < shape.num_workers; ++i)
    placed.push_back({{Role::kWorker, i}, i % num_hosts});
  return placed;
}

ProcessId ProcessOfRank(size_t rank, const JobShape& shape) {
  if (rank < shape.num_ps) return {Role::kServer, rank};
  return {Role::kWorker, rank - shape.num_ps};
}

std::string JoinHostPort(std::string_view host, uint16_t port) {
  const bool is_ipv6 = host.find(':') != std::string_view::npos;
  const std::string text(host);
  return (is_ipv6 ? "[" + text + "]" : text) + ":" + std::to_string(port);
}

bool IsLoopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

std::string HostOfDestination(std::string_view destination) {
  const size_t at = destination.rfind('@');
  return std::string(at == std::string_view::npos ? destination : destination.substr(at + 1));
}

std::optional<uint16_t> ListeningPort(std::string_view line, size_t index, size_t num_ps) {
  const std::string head = "millrace-ps: shard " + std::to_string(index) + " of " +
                           std::to_string(num_ps) + " listening on ";
  if (!line.starts_with(head)) return std::nullopt;
  const size_t colon = line.rfind(':');
  if (colon <= head.size()) return std::nullopt;
  const std::string_view digits = line.substr(colon + 1);
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), port);
  if (error != std::errc() || end != digits.end() || port == 0) return std::nullopt;
  return port;
}

}  // namespace millrace::launch
