// The processes of a job: how each is started, and what is known of it.
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

namespace millrace::tools {

// The command that starts a keeper: on this host for an empty destination, else by ssh.
Words KeeperCommand(const LaunchOptions& options, const std::string& destination);

struct Member {
  ProcessId id;
  size_t host = 0;
  std::optional<size_t> child = {};  // while it runs: the supervisor's number
  pid_t pid = 0;                     // 0: not known yet
  uint16_t port = 0;                 // of a server that listens
  bool was_told = false;             // to end, by us
  std::optional<int64_t> killed_ms = {};
  int keepers = 0;  // started for it, since the job was

  bool is_alive() const { return child.has_value(); }
};

// Its member number i has the console's channel i.
class Crew {
 public:
  // `hosts` has an entry for each of options.hosts, or one for this host. All arguments outlive it.
  Crew(const LaunchOptions& options, const std::vector<HostReport>& hosts, std::string token,
       std::string directory, Supervisor& supervisor);

  // Starts a keeper for every member, and forgets what was known of earlier ones. Workers' keepers
  // have to wait for the servers, but the connections to their hosts need not.
  Status StartKeepers();
  Status StartKeeper(Member& member);
  // These tell the keepers what to run.
  void StartServers();
  void StartServer(size_t index);
  void StartWorkers(Start start);
  void StartWorker(size_t index, Start start);

  std::vector<Member>& members() { return members_; }
  Member& worker(size_t index) { return members_[options_.shape.num_ps + index]; }
  Member& OfChild(size_t child);

  bool IsAnyAlive() const;
  bool IsAnyAlive(Role role) const;
  // Of the role, names with the host: "ps 0 on node1, ps 2 on node3".
  std::string SilentServers() const;
  bool AllServersListen() const { return SilentServers().empty(); }
  bool AllPidsKnown() const;

  // To those alive.
  void Signal(Role role, int signal_number);
  void Kill(Role role);
  // Keepers and ssh clients that are still there a while after a Kill.
  void AbandonStubborn(int64_t now_ms);
  std::optional<int64_t> NextAbandonMs() const;

  // process, host, address, pid
  std::string PlacementTable() const;
  // "worker 1 (pid 4711 on node2)"
  std::string Describe(ProcessId id) const;

 private:
  void Give(const Member& member, const Words& command);
  JobFlags Flags() const;

  const LaunchOptions& options_;
  const std::vector<HostReport>& hosts_;
  std::string token_;
  std::string directory_;
  Supervisor& supervisor_;
  std::vector<Member> members_;
};

}  // namespace millrace::tools
