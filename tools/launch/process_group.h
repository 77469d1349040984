// SPDX-License-Identifier: Apache-2.0
// The processes of a job: starts them, signals them and keeps their state.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "tools/launch/hosts.h"
#include "tools/launch/launch_options.h"
#include "tools/launch/supervisor.h"

namespace millrace::launch {

// The command that starts a process shim: on this host if `destination` is empty, else through ssh.
Words ShimCommand(const LaunchOptions& options, const std::string& destination);

struct Member {
  ProcessId id;
  size_t host = 0;
  std::optional<size_t> child = {};  // the supervisor's number, while it runs
  pid_t pid = 0;                     // 0: not yet known
  uint16_t port = 0;                 // of a server; 0: does not listen yet
  bool was_signaled = false;         // by the launcher
  std::optional<int64_t> killed_ms = {};
  int shims_started = 0;  // since the start or restart of the job

  bool is_alive() const { return child.has_value(); }
};

// Member i writes to channel i of the console.
class ProcessGroup {
 public:
  // `hosts` has one entry for each of options.hosts, or one for this host. All references must
  // outlive the group.
  ProcessGroup(const LaunchOptions& options, const std::vector<HostReport>& hosts,
               std::string token, std::string directory, Supervisor& supervisor);

  // Starts a process shim for every member and resets the members' state. Shims of workers start
  // before the servers listen, so that connections to their hosts are already open.
  Status StartShims();
  Status StartShim(Member& member);
  // These send the tasks to the shims.
  void StartServers();
  void StartServer(size_t index);
  void StartWorkers(Start start);
  void StartWorker(size_t index, Start start);

  std::vector<Member>& members() { return members_; }
  Member& worker(size_t index) { return members_[options_.shape.num_ps + index]; }
  Member& MemberOfChild(size_t child);

  bool IsAnyAlive() const;
  bool IsAnyAlive(Role role) const;
  // The servers that do not listen yet, with their hosts: "ps 0 on node1, ps 2 on node3".
  std::string ServersNotListening() const;
  bool AllServersListen() const { return ServersNotListening().empty(); }
  bool AllPidsKnown() const;

  // These signal all members of the role that are alive.
  void Signal(Role role, int signal_number);
  void Kill(Role role);
  // Kills the shims and ssh clients that have not exited within some seconds after Kill.
  void KillUnresponsive(int64_t now_ms);
  // When KillUnresponsive must be called next.
  std::optional<int64_t> NextKillMs() const;

  // Columns: process, host, address, pid.
  std::string PlacementTable() const;
  // "worker 1 (pid 4711 on node2)"
  std::string Describe(ProcessId id) const;

 private:
  void SendTask(const Member& member, const Words& command);
  JobFlags Flags() const;

  const LaunchOptions& options_;
  const std::vector<HostReport>& hosts_;
  std::string token_;
  std::string directory_;
  Supervisor& supervisor_;
  std::vector<Member> members_;
};

}  // namespace millrace::launch
