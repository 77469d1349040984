#include "tools/launch/plan/placement.h"

namespace millrace::tools {

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

}  // namespace millrace::tools
