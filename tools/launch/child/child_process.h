// A keeper as its launcher sees it: a child process (the keeper itself, or an ssh client with the
// keeper at its other end) with three pipes.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "io/base/status.h"
#include "tools/launch/child/unique_fd.h"
#include "tools/launch/plan/command.h"

namespace millrace::tools {

// The pipes do not block. When the object goes, the keeper's input ends, and with it the process
// that it keeps; waiting for the child is the owner's affair.
class ChildProcess {
 public:
  // `command` begins with the path of a program. The child is in a process group of its own, so
  // that Ctrl-C at the terminal reaches the launcher alone.
  static Result<ChildProcess> Start(const Words& command);

  pid_t pid() const { return pid_; }
  int control() const { return control_.get(); }  // -1 when closed
  int out() const { return out_.get(); }
  int err() const { return err_.get(); }

  // Queues bytes for the child's input. They are written by WriteControl when there is room.
  void Send(std::string_view bytes) { pending_ += bytes; }
  bool has_pending() const { return control_ && !pending_.empty(); }
  void WriteControl();

 private:
  ChildProcess() = default;

  pid_t pid_ = -1;
  UniqueFd control_, out_, err_;
  std::string pending_;
};

}  // namespace millrace::tools
