// SPDX-License-Identifier: Apache-2.0
// The role of this process in a job whose processes are started one by one by something else, such
// as the pods of Kubernetes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/status.h"
#include "tools/launch/plan/placement.h"

namespace millrace::launch {

struct ClusterTask {
  std::vector<std::string> ps_hosts;      // HOST:PORT of each server
  std::vector<std::string> worker_hosts;  // HOST of each worker
  // Nothing: an evaluator. Worker 0 evaluates, so it has nothing to do.
  std::optional<ProcessId> id;

  JobShape shape() const { return {.num_ps = ps_hosts.size(), .num_workers = worker_hosts.size()}; }
};

// From the JSON text of TF_CONFIG:
//
//   {"cluster": {"chief": ["a:2222"], "worker": ["b:2222"], "ps": ["c:2222"]},
//    "task": {"type": "worker", "index": 0}}
//
// The chief (or "master") is worker 0, and the workers follow. A text without "cluster" is that of
// one process: worker 0 of a job without servers.
Result<ClusterTask> TaskFromTfConfig(std::string_view text);

// "ps-{0..1}.clicks:7000,extra:7000" -> ps-0.clicks:7000 ps-1.clicks:7000 extra:7000
Result<std::vector<std::string>> ExpandHosts(std::string_view hosts);

// The task of the host `host_name`: the one whose host has this name, whole or up to the first dot.
// A worker may have `completion_index` instead, its number among the pods of an indexed job.
Result<ClusterTask> TaskOfHost(std::string_view ps_hosts, std::string_view worker_hosts,
                               std::string_view host_name, std::optional<size_t> completion_index);

// Where a server of the address `host_port` listens: on this address if it is a number, else on all
// addresses of its host, because the name of a pod may not resolve yet when it starts.
std::string ListenAddress(const std::string& host_port);

}  // namespace millrace::launch
