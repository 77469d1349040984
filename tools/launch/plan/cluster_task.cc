// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/plan/cluster_task.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "tools/common/json_cursor.h"

namespace millrace::launch {
namespace {

using tools::JsonCursor;

using Hosts = std::vector<std::string>;

// HOST of HOST:PORT, [V6]:PORT or HOST.
std::string HostOf(std::string_view host_port) {
  if (host_port.starts_with("[")) {
    return std::string(host_port.substr(1, host_port.find(']') - 1));
  }
  const size_t colon = host_port.rfind(':');
  const bool has_port = colon != host_port.npos && host_port.find(':') == colon;
  return std::string(has_port ? host_port.substr(0, colon) : host_port);
}

bool HasPort(std::string_view host_port) {
  const size_t colon = host_port.rfind(':');
  if (colon == host_port.npos || colon == 0) return false;
  const bool is_one = host_port.find(':') == colon;
  return (is_one || host_port[colon - 1] == ']') && colon + 1 < host_port.size();
}

Status CheckTask(const ClusterTask& task, const std::string& source) {
  for (const std::string& host : task.ps_hosts) {
    if (!HasPort(host)) return Invalid(source + ": server '" + host + "': expected HOST:PORT");
  }
  const std::set<std::string> servers(task.ps_hosts.begin(), task.ps_hosts.end());
  if (servers.size() < task.ps_hosts.size())
    return Invalid(source + ": two servers have the same address");
  if (task.worker_hosts.empty()) return Invalid(source + ": expected at least one worker");
  if (task.ps_hosts.empty() && task.worker_hosts.size() > 1) {
    return Invalid(source + ": " + std::to_string(task.worker_hosts.size()) +
                   " workers and no server: workers share a model through servers, expected ps");
  }
  if (task.ps_hosts.size() + task.worker_hosts.size() > kMaxProcesses) {
    return Invalid(source + ": expected at most " + std::to_string(kMaxProcesses) +
                   " processes in all");
  }
  return {};
}

struct TfConfig {
  Hosts chief, worker, ps;
  bool has_cluster = false;
  std::string type;
  size_t index = 0;
};

Hosts HostList(JsonCursor& json) {
  Hosts hosts;
  json.Array([&] { hosts.push_back(json.String()); });
  return hosts;
}

Result<TfConfig> ReadTfConfig(std::string_view text) {
  TfConfig config;
  JsonCursor json(text, "TF_CONFIG");
  json.Object([&](std::string_view name) {
    if (name == "cluster") {
      config.has_cluster = true;
      json.Object([&](std::string_view role) {
        if (role == "chief" || role == "master") {
          config.chief = HostList(json);
        } else if (role == "worker") {
          config.worker = HostList(json);
        } else if (role == "ps") {
          config.ps = HostList(json);
        } else {
          json.Skip();
        }
      });
    } else if (name == "task") {
      json.Object([&](std::string_view field) {
        if (field == "type") {
          config.type = json.String();
        } else if (field == "index") {
          const int64_t index = json.Int(kMaxProcesses);
          if (index < 0) json.Fail("an index from 0");
          config.index = static_cast<size_t>(std::max<int64_t>(index, 0));
        } else {
          json.Skip();
        }
      });
    } else {
      json.Skip();
    }
  });
  if (!json.status().ok()) return Invalid(json.status().message());
  return config;
}

Status CheckIndex(const TfConfig& config, size_t size) {
  if (config.index < size) return {};
  return Invalid("TF_CONFIG: task " + config.type + " " + std::to_string(config.index) +
                 ": expected an index below the " + std::to_string(size) + " of the cluster");
}

Result<std::optional<ProcessId>> IdOf(const TfConfig& config) {
  const std::string& type = config.type;
  if (type == "evaluator") return std::optional<ProcessId>();
  if (type == "ps") {
    RETURN_IF_ERROR(CheckIndex(config, config.ps.size()));
    return std::optional(ProcessId{Role::kServer, config.index});
  }
  if (type == "chief" || type == "master") {
    RETURN_IF_ERROR(CheckIndex(config, config.chief.size()));
    return std::optional(ProcessId{Role::kWorker, 0});
  }
  if (type == "worker") {
    RETURN_IF_ERROR(CheckIndex(config, config.worker.size()));
    return std::optional(ProcessId{Role::kWorker, config.chief.size() + config.index});
  }
  return Invalid("TF_CONFIG: expected a task of type chief, worker, ps or evaluator, found '" +
                 type + "'");
}

// The number at the front of `text`, which it removes.
std::optional<size_t> TakeNumber(std::string_view& text) {
  size_t number = 0;
  const auto [end, error] = std::from_chars(text.begin(), text.end(), number);
  if (error != std::errc() || number > kMaxProcesses) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.begin()));
  return number;
}

Status Expand(std::string_view word, Hosts& hosts) {
  const size_t open = word.find('{'), close = word.find('}');
  if (open == word.npos && close == word.npos) {
    hosts.emplace_back(word);
    return {};
  }
  const Status wrong =
      Invalid("'" + std::string(word) + "': expected one range such as ps-{0..3} of at most " +
              std::to_string(kMaxProcesses) + " hosts");
  if (open == word.npos || close == word.npos || close < open) return wrong;
  std::string_view range = word.substr(open + 1, close - open - 1);
  const std::string_view rest = word.substr(close + 1);
  const std::optional<size_t> first = TakeNumber(range);
  if (!first || !range.starts_with("..")) return wrong;
  range.remove_prefix(2);
  const std::optional<size_t> last = TakeNumber(range);
  if (!last || !range.empty() || *last < *first || rest.find_first_of("{}") != rest.npos)
    return wrong;
  for (size_t i = *first; i <= *last; ++i)
    hosts.push_back(std::string(word.substr(0, open)) + std::to_string(i) + std::string(rest));
  return {};
}

std::string_view FirstLabel(std::string_view name) { return name.substr(0, name.find('.')); }

// The number of the host in `hosts`; nothing if it is in none.
std::optional<size_t> Find(const Hosts& hosts, std::string_view host_name) {
  for (const bool whole : {true, false}) {
    for (size_t i = 0; i < hosts.size(); ++i) {
      const std::string host = HostOf(hosts[i]);
      if (whole ? host == host_name : FirstLabel(host) == FirstLabel(host_name)) return i;
    }
  }
  return std::nullopt;
}

}  // namespace

Result<ClusterTask> TaskFromTfConfig(std::string_view text) {
  ASSIGN_OR_RETURN(const TfConfig config, ReadTfConfig(text));
  ClusterTask task;
  if (!config.has_cluster) {
    task.worker_hosts = {"localhost"};
    task.id = ProcessId{Role::kWorker, 0};
    return task;
  }
  if (config.chief.size() > 1) {
    return Invalid("TF_CONFIG: expected one chief, found " + std::to_string(config.chief.size()));
  }
  task.ps_hosts = config.ps;
  for (const Hosts* hosts : {&config.chief, &config.worker}) {
    for (const std::string& host : *hosts) task.worker_hosts.push_back(HostOf(host));
  }
  RETURN_IF_ERROR(CheckTask(task, "TF_CONFIG"));
  ASSIGN_OR_RETURN(task.id, IdOf(config));
  return task;
}

Result<Hosts> ExpandHosts(std::string_view hosts) {
  Hosts expanded;
  while (!hosts.empty()) {
    const size_t end = std::min(hosts.find(','), hosts.size());
    const std::string_view word = hosts.substr(0, end);
    if (word.empty() || word.find_first_of(" \t\n'\"") != word.npos)
      return Invalid("'" + std::string(word) + "': expected names separated by commas");
    RETURN_IF_ERROR(Expand(word, expanded));
    hosts.remove_prefix(std::min(end + 1, hosts.size()));
  }
  return expanded;
}

Result<ClusterTask> TaskOfHost(std::string_view ps_hosts, std::string_view worker_hosts,
                               std::string_view host_name, std::optional<size_t> completion_index) {
  ClusterTask task;
  const auto expand = [](const char* flag, std::string_view text, Hosts& hosts) -> Status {
    Result<Hosts> expanded = ExpandHosts(text);
    if (!expanded.ok()) return Invalid(std::string(flag) + ": " + expanded.status().message());
    hosts = std::move(*expanded);
    return {};
  };
  RETURN_IF_ERROR(expand("--ps_hosts", ps_hosts, task.ps_hosts));
  RETURN_IF_ERROR(expand("--worker_hosts", worker_hosts, task.worker_hosts));
  RETURN_IF_ERROR(CheckTask(task, "--ps_hosts and --worker_hosts"));
  if (const auto server = Find(task.ps_hosts, host_name)) {
    task.id = ProcessId{Role::kServer, *server};
    return task;
  }
  const auto worker = Find(task.worker_hosts, host_name);
  if (!worker && !completion_index) {
    return Invalid("this host, '" + std::string(host_name) +
                   "', is in neither --ps_hosts nor --worker_hosts, and "
                   "JOB_COMPLETION_INDEX is not set");
  }
  const size_t index = worker ? *worker : *completion_index;
  if (index >= task.worker_hosts.size()) {
    return Invalid("JOB_COMPLETION_INDEX=" + std::to_string(index) + ": expected below the " +
                   std::to_string(task.worker_hosts.size()) + " of --worker_hosts");
  }
  task.id = ProcessId{Role::kWorker, index};
  return task;
}

std::string ListenAddress(const std::string& host_port) {
  const std::string host = HostOf(host_port);
  in6_addr address = {};
  const bool is_number = ::inet_pton(AF_INET, host.c_str(), &address) == 1 ||
                         ::inet_pton(AF_INET6, host.c_str(), &address) == 1;
  if (is_number || IsLoopback(host)) return host_port;
  return "0.0.0.0" + host_port.substr(host_port.rfind(':'));
}

}  // namespace millrace::launch
