#include "tools/launch/process_group.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "tools/common/text_table.h"
#include "tools/launch/child/process_shim.h"
#include "tools/launch/child/program_path.h"
#include "tools/launch/plan/address.h"
#include "tools/launch/remote.h"

namespace millrace::tools {
namespace {

constexpr int64_t kAbandonMs = 3000;

}  // namespace

Words KeeperCommand(const LaunchOptions& options, const std::string& destination) {
  // Not by its path: the file may have been replaced since this process was started.
  if (destination.empty()) return {"/proc/self/exe", kKeeperFlag};
  return RemoteCommand(options.ssh, destination, {OwnPath(), kKeeperFlag});
}

Crew::Crew(const LaunchOptions& options, const std::vector<HostReport>& hosts, std::string token,
           std::string directory, Supervisor& supervisor)
    : options_(options),
      hosts_(hosts),
      token_(std::move(token)),
      directory_(std::move(directory)),
      supervisor_(supervisor) {
  for (const PlacedProcess& placed : Place(options.shape, hosts.size()))
    members_.push_back({.id = placed.id, .host = placed.host});
}

Status Crew::StartKeepers() {
  for (Member& member : members_) {
    member.keepers = 0;
    RETURN_IF_ERROR(StartKeeper(member));
  }
  return {};
}

Status Crew::StartKeeper(Member& member) {
  member = {.id = member.id, .host = member.host, .keepers = member.keepers + 1};
  const std::string destination = options_.hosts.empty() ? "" : options_.hosts[member.host];
  const auto channel = static_cast<size_t>(&member - members_.data());
  const Watch watch = member.id.role == Role::kServer ? Watch::kLines : Watch::kNothing;
  ASSIGN_OR_RETURN(member.child,
                   supervisor_.Start(KeeperCommand(options_, destination), channel, watch));
  return {};
}

void Crew::Give(const Member& member, const Words& command) {
  // One that has ended already is judged by its exit status.
  if (!member.is_alive()) return;
  supervisor_.Give(*member.child, {.directory = directory_,
                                   .command = command,
                                   .token = options_.shape.num_ps > 0 ? token_ : ""});
}

JobFlags Crew::Flags() const {
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

void Crew::StartServers() {
  for (size_t i = 0; i < options_.shape.num_ps; ++i) StartServer(i);
}

void Crew::StartServer(size_t index) {
  const Member& member = members_[index];
  const std::string listen = JoinHostPort(hosts_[member.host].address, 0);
  Give(member, ServerCommand(options_.server, options_.worker, Flags(), index, listen));
}

void Crew::StartWorkers(Start start) {
  for (size_t i = 0; i < options_.shape.num_workers; ++i) StartWorker(i, start);
}

void Crew::StartWorker(size_t index, Start start) {
  Give(worker(index), WorkerCommand(options_.worker, Flags(), index, start));
}

Member& Crew::OfChild(size_t child) {
  const auto member = std::find_if(members_.begin(), members_.end(),
                                   [&](const Member& m) { return m.child == child; });
  CHECK(member != members_.end());
  return *member;
}

bool Crew::IsAnyAlive() const { return IsAnyAlive(Role::kServer) || IsAnyAlive(Role::kWorker); }

bool Crew::IsAnyAlive(Role role) const {
  return std::any_of(members_.begin(), members_.end(),
                     [&](const Member& m) { return m.id.role == role && m.is_alive(); });
}

std::string Crew::SilentServers() const {
  std::string names;
  for (const Member& member : members_) {
    if (member.id.role != Role::kServer || member.port != 0) continue;
    names +=
        (names.empty() ? "" : ", ") + NameOf(member.id) + " on " + hosts_[member.host].info.name;
  }
  return names;
}

bool Crew::AllPidsKnown() const {
  return std::all_of(members_.begin(), members_.end(), [](const Member& m) { return m.pid != 0; });
}

void Crew::Signal(Role role, int signal_number) {
  for (Member& member : members_) {
    if (member.id.role != role || !member.is_alive()) continue;
    member.was_told = true;
    supervisor_.Signal(*member.child, signal_number);
  }
}

void Crew::Kill(Role role) {
  Signal(role, SIGKILL);
  for (Member& member : members_) {
    if (member.id.role == role && member.is_alive() && !member.killed_ms)
      member.killed_ms = NowMs();
  }
}

void Crew::AbandonStubborn(int64_t now_ms) {
  for (Member& member : members_) {
    if (!member.is_alive() || !member.killed_ms || now_ms < *member.killed_ms + kAbandonMs)
      continue;
    supervisor_.Abandon(*member.child);
    member.killed_ms.reset();
  }
}

std::optional<int64_t> Crew::NextAbandonMs() const {
  std::optional<int64_t> next;
  for (const Member& member : members_) {
    if (member.is_alive() && member.killed_ms)
      next = std::min(next.value_or(INT64_MAX), *member.killed_ms + kAbandonMs);
  }
  return next;
}

std::string Crew::PlacementTable() const {
  TextTable table({{"process"}, {"host"}, {"address"}, {"pid"}});
  for (const Member& member : members_) {
    const HostReport& host = hosts_[member.host];
    table.Add({NameOf(member.id), host.info.name,
               member.port == 0 ? host.address : JoinHostPort(host.address, member.port),
               member.pid == 0 ? "-" : std::to_string(member.pid)});
  }
  return table.Text();
}

std::string Crew::Describe(ProcessId id) const {
  const auto member =
      std::find_if(members_.begin(), members_.end(), [&](const Member& m) { return m.id == id; });
  const std::string pid = member->pid == 0 ? "" : "pid " + std::to_string(member->pid) + " ";
  return NameOf(id) + " (" + pid + "on " + hosts_[member->host].info.name + ")";
}

}  // namespace millrace::tools
