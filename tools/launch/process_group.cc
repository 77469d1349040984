// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/process_group.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "tools/common/text_table.h"
#include "tools/launch/child/process_shim.h"
#include "tools/launch/child/program_path.h"

namespace millrace::launch {
namespace {

constexpr int64_t kUnresponsiveMs = 3000;  // after a SIGKILL

}  // namespace

Words ShimCommand(const LaunchOptions& options, const std::string& destination) {
  // Not OwnPath(): the file can have been replaced since this process started.
  if (destination.empty()) return {"/proc/self/exe", kShimFlag};
  return RemoteCommand(options.ssh, destination, {OwnPath(), kShimFlag});
}

ProcessGroup::ProcessGroup(const LaunchOptions& options, const std::vector<HostReport>& hosts,
                           std::string token, std::string directory, Supervisor& supervisor)
    : options_(options),
      hosts_(hosts),
      token_(std::move(token)),
      directory_(std::move(directory)),
      supervisor_(supervisor) {
  for (const PlacedProcess& placed : Place(options.shape, hosts.size()))
    members_.push_back({.id = placed.id, .host = placed.host});
}

Status ProcessGroup::StartShims() {
  for (Member& member : members_) {
    member.shims_started = 0;
    RETURN_IF_ERROR(StartShim(member));
  }
  return {};
}

Status ProcessGroup::StartShim(Member& member) {
  member = {.id = member.id, .host = member.host, .shims_started = member.shims_started + 1};
  const std::string destination = options_.hosts.empty() ? "" : options_.hosts[member.host];
  const auto channel = static_cast<size_t>(&member - members_.data());
  const Watch watch = member.id.role == Role::kServer ? Watch::kLines : Watch::kNothing;
  ASSIGN_OR_RETURN(member.child,
                   supervisor_.Start(ShimCommand(options_, destination), channel, watch));
  return {};
}

void ProcessGroup::SendTask(const Member& member, const Words& command) {
  // The exit status of a member that has already exited is handled later.
  if (!member.is_alive()) return;
  supervisor_.SendTask(*member.child, {.directory = directory_,
                                       .command = command,
                                       .token = options_.shape.num_ps > 0 ? token_ : ""});
}

JobFlags ProcessGroup::Flags() const {
  JobFlags flags = {.num_ps = options_.shape.num_ps,
                    .num_workers = options_.shape.num_workers,
                    .ps_hosts = {},
                    .worker_hosts = {},
                    .tls = options_.tls};
  for (const Member& member : members_) {
    const std::string& address = hosts_[member.host].address;
    if (member.id.role == Role::kServer)
      flags.ps_hosts.push_back(JoinHostPort(address, member.port));
    if (member.id.role == Role::kWorker) flags.worker_hosts.push_back(address);
  }
  return flags;
}

void ProcessGroup::StartServers() {
  for (size_t i = 0; i < options_.shape.num_ps; ++i) StartServer(i);
}

void ProcessGroup::StartServer(size_t index) {
  const Member& member = members_[index];
  const std::string listen = JoinHostPort(hosts_[member.host].address, 0);
  SendTask(member, ServerCommand(options_.server, options_.worker, Flags(), index, listen));
}

void ProcessGroup::StartWorkers(Start start) {
  for (size_t i = 0; i < options_.shape.num_workers; ++i) StartWorker(i, start);
}

void ProcessGroup::StartWorker(size_t index, Start start) {
  SendTask(worker(index), WorkerCommand(options_.worker, Flags(), index, start));
}

Member& ProcessGroup::MemberOfChild(size_t child) {
  const auto member = std::find_if(members_.begin(), members_.end(),
                                   [&](const Member& m) { return m.child == child; });
  CHECK(member != members_.end());
  return *member;
}

bool ProcessGroup::IsAnyAlive() const {
  return IsAnyAlive(Role::kServer) || IsAnyAlive(Role::kWorker);
}

bool ProcessGroup::IsAnyAlive(Role role) const {
  return std::any_of(members_.begin(), members_.end(),
                     [&](const Member& m) { return m.id.role == role && m.is_alive(); });
}

std::string ProcessGroup::ServersNotListening() const {
  std::string names;
  for (const Member& member : members_) {
    if (member.id.role != Role::kServer || member.port != 0) continue;
    names +=
        (names.empty() ? "" : ", ") + NameOf(member.id) + " on " + hosts_[member.host].info.name;
  }
  return names;
}

bool ProcessGroup::AllPidsKnown() const {
  return std::all_of(members_.begin(), members_.end(), [](const Member& m) { return m.pid != 0; });
}

void ProcessGroup::Signal(Role role, int signal_number) {
  for (Member& member : members_) {
    if (member.id.role != role || !member.is_alive()) continue;
    member.was_signaled = true;
    supervisor_.Signal(*member.child, signal_number);
  }
}

void ProcessGroup::Kill(Role role) {
  Signal(role, SIGKILL);
  for (Member& member : members_) {
    if (member.id.role == role && member.is_alive() && !member.killed_ms)
      member.killed_ms = NowMs();
  }
}

void ProcessGroup::KillUnresponsive(int64_t now_ms) {
  for (Member& member : members_) {
    if (!member.is_alive() || !member.killed_ms || now_ms < *member.killed_ms + kUnresponsiveMs)
      continue;
    supervisor_.KillChild(*member.child);
    member.killed_ms.reset();
  }
}

std::optional<int64_t> ProcessGroup::NextKillMs() const {
  std::optional<int64_t> next;
  for (const Member& member : members_) {
    if (member.is_alive() && member.killed_ms)
      next = std::min(next.value_or(INT64_MAX), *member.killed_ms + kUnresponsiveMs);
  }
  return next;
}

std::string ProcessGroup::PlacementTable() const {
  tools::TextTable table({{"process"}, {"host"}, {"address"}, {"pid"}});
  for (const Member& member : members_) {
    const HostReport& host = hosts_[member.host];
    table.Add({NameOf(member.id), host.info.name,
               member.port == 0 ? host.address : JoinHostPort(host.address, member.port),
               member.pid == 0 ? "-" : std::to_string(member.pid)});
  }
  return table.Text();
}

std::string ProcessGroup::Describe(ProcessId id) const {
  const auto member =
      std::find_if(members_.begin(), members_.end(), [&](const Member& m) { return m.id == id; });
  const std::string pid = member->pid == 0 ? "" : "pid " + std::to_string(member->pid) + " ";
  return NameOf(id) + " (" + pid + "on " + hosts_[member->host].info.name + ")";
}

}  // namespace millrace::launch
