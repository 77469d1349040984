// SPDX-License-Identifier: Apache-2.0
// All children of the launcher and the signals sent to it, as one stream of events.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "tools/launch/child/child_process.h"
#include "tools/launch/child/shim_message.h"
#include "tools/launch/child/unique_fd.h"
#include "tools/launch/output/console.h"
#include "tools/launch/output/lines.h"

namespace millrace::launch {

struct Event {
  enum class Kind {
    kStarted,  // the process shim has reported the pid of its process
    kLine,     // a line on standard output of a watched child
    kExited,   // a child has exited and all its output was read; `line` is its last stderr line
    kSignal,   // the launcher has received SIGINT, SIGTERM or SIGHUP
  };
  Kind kind = Kind::kSignal;
  size_t child = 0;
  pid_t pid = 0;
  std::string line = {};
  int status = 0;  // 128 + n for signal n
  int signal_number = 0;
};

// The signal to send to workers when the launcher receives `signal_number`. SIGHUP, from a terminal
// that closes, becomes SIGTERM, so that workers write a checkpoint.
int SignalForWorkers(int signal_number);

// Milliseconds of the steady clock.
int64_t NowMs();

enum class Watch {
  kNothing,
  kLines,      // lines on standard output are shown and are events
  kLinesOnly,  // they are events and are not shown
};

// A launcher has one at a time. The destructor kills all children and their descendants.
class Supervisor {
 public:
  // Blocks SIGINT, SIGTERM, SIGCHLD and SIGHUP (unless it is ignored, as under nohup) permanently
  // and reads them as events.
  explicit Supervisor(Console& console);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Starts `command`, a process shim or an ssh client that runs one. Its lines go to the console's
  // `channel`. Returns the number of the child.
  Result<size_t> Start(const Words& command, size_t channel, Watch watch);

  // The following calls do nothing for a child that has exited.

  // Sends a process shim its task. To be called once per child.
  void SendTask(size_t child, const ShimTask& task);

  // Sends a signal through the process shim to the process and its POSIX process group. SIGKILL
  // kills all its descendants.
  void Signal(size_t child, int signal_number);
  // Kills the child itself: a process shim or ssh client that no longer responds.
  void KillChild(size_t child);

  // Waits for events, for `deadline_ms` (nothing: no deadline), or until `other_fd` is readable
  // (-1: none).
  std::vector<Event> Wait(std::optional<int64_t> deadline_ms, int other_fd = -1);

  // Waits until the console has written all its output or a signal arrives.
  void FlushConsole();

 private:
  struct Child {
    ChildProcess process;
    size_t channel = 0;
    Watch watch = Watch::kNothing;
    bool has_pid = false;
    bool has_out = true, has_err = true;  // the streams are open
    LineSplitter out = {}, err = {};
    std::optional<int> status = {};
    int64_t reaped_ms = 0;
    bool is_idle = false;  // the last read of an open stream found no data
    std::string last_stderr_line = {};
  };

  void Send(size_t child, const std::string& message);
  void ReadOutputs();
  bool ReadStream(size_t number, Child& child, Stream stream);
  void AddLines(size_t number, Child& child, Stream stream, std::vector<std::string> lines);
  void ReadSignals();
  void Reap();
  void EndChildren();
  bool HasEnded(const Child& child) const;
  int PollTimeout(std::optional<int64_t> deadline_ms) const;

  Console& console_;
  UniqueFd signals_;
  std::map<size_t, Child> children_;  // those without a kExited event yet
  size_t next_child_ = 0;
  std::vector<Event> events_;
};

}  // namespace millrace::launch
