// All children of a launcher and the signals sent to it, as one stream of events.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "tools/launch/child/child_process.h"
#include "tools/launch/child/shim_message.h"
#include "tools/launch/child/unique_fd.h"
#include "tools/launch/output/console.h"
#include "tools/launch/output/line_splitter.h"

namespace millrace::tools {

struct Event {
  enum class Kind {
    kStarted,  // the keeper has told its process's pid
    kLine,     // a line on standard output of a child that is watched
    kExited,   // a child has ended, and everything it wrote was read; `line` is the last one of
               // its standard error
    kSignal,   // SIGINT, SIGTERM or SIGHUP was sent to the launcher
  };
  Kind kind = Kind::kSignal;
  size_t child = 0;
  pid_t pid = 0;
  std::string line = {};
  int status = 0;  // 128 + n for signal n
  int signal_number = 0;
};

// What to pass on: a terminal that closes (SIGHUP) is no reason to end without a checkpoint.
int SignalForWorkers(int signal_number);

// Milliseconds of a clock that only goes forward.
int64_t NowMs();

enum class Watch {
  kNothing,
  kLines,      // lines on standard output are shown, and events as well
  kLinesOnly,  // they are events and not shown
};

// A launcher has one at a time. Its children are told to end, and killed with all they have
// started, when it goes.
class Supervisor {
 public:
  // Takes over SIGINT, SIGTERM, SIGHUP (unless it is ignored, as nohup does) and SIGCHLD for good.
  explicit Supervisor(Console& console);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Starts `command`, a keeper or an ssh client before one. Its lines go to the console's
  // `channel`. Returns the child's number.
  Result<size_t> Start(const Words& command, size_t channel, Watch watch);

  // Tells a keeper what to run, once.
  void Give(size_t child, const KeeperTask& task);

  // Through the keeper to the process and its group. SIGKILL ends all its descendants as well.
  void Signal(size_t child, int signal_number);
  // Kills the child itself, for keepers and ssh clients that answer no more.
  void Abandon(size_t child);

  // Waits until something has happened, until `deadline_ms` (none: for ever), or until `other_fd`
  // can be read (-1: none).
  std::vector<Event> Wait(std::optional<int64_t> deadline_ms, int other_fd = -1);

  // Waits until the console has written everything; a signal ends the waiting.
  void Drain();

 private:
  struct Child {
    ChildProcess process;
    size_t channel = 0;
    Watch watch = Watch::kNothing;
    bool has_pid = false;
    bool has_out = true, has_err = true;  // not at their ends yet
    LineSplitter out = {}, err = {};
    std::optional<int> status = {};
    int64_t reaped_ms = 0;
    bool is_idle = false;         // the last read of an open stream found nothing
    bool is_over = false;         // its kExited event was given
    std::string last_error = {};  // line
  };

  void ReadOutputs();
  bool ReadStream(size_t child, Stream stream);
  void TakeLines(size_t child, Stream stream, std::vector<std::string> lines);
  void ReadSignals();
  void Reap();
  void EndChildren();
  int PollTimeout(std::optional<int64_t> deadline_ms) const;

  Console& console_;
  UniqueFd signals_;
  std::vector<std::unique_ptr<Child>> children_;
  std::vector<Event> events_;
};

}  // namespace millrace::tools
