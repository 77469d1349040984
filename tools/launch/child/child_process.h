// SPDX-License-Identifier: Apache-2.0
// Child processes of the launcher and of a process shim: how one is started, and how all are
// killed.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "io/base/status.h"
#include "tools/launch/child/unique_fd.h"
#include "tools/launch/plan/command.h"

namespace millrace::launch {

// A process shim, or an ssh client that runs one on another host, with pipes to its standard
// streams. The pipes do not block. The destructor closes the shim's input, which makes the shim
// kill its process. The owner must wait for the child.
class ChildProcess {
 public:
  // `command` begins with the path of a program. The child gets a new POSIX process group, so that
  // Ctrl-C at the terminal reaches only the launcher.
  static Result<ChildProcess> Start(const Words& command);

  pid_t pid() const { return pid_; }
  int control() const { return control_.get(); }  // -1 when closed
  int out() const { return out_.get(); }
  int err() const { return err_.get(); }

  // Queues bytes for the child's input. WriteControl writes as many as the pipe has room for.
  void Send(std::string_view bytes) { pending_ += bytes; }
  bool has_pending() const { return control_ && !pending_.empty(); }
  void WriteControl();

 private:
  ChildProcess() = default;

  pid_t pid_ = -1;
  UniqueFd control_, out_, err_;
  std::string pending_;
};

// Makes this process the parent of its orphaned descendants, even of those that have changed their
// session or process group.
void AdoptOrphans();

// Kills all children, waits for each, and repeats this for the orphans that they leave. After
// AdoptOrphans no descendant survives.
void KillDescendants();

}  // namespace millrace::launch
