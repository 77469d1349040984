// What the person at the terminal sees: the launcher's own words, and the lines of all processes,
// each behind its name; and the same lines in log files, if asked for.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/base/status.h"
#include "tools/launch/child/unique_fd.h"
#include "tools/launch/output/nonblocking_writer.h"

namespace millrace::tools {

enum class Stream { kOut, kErr };

struct ConsoleOptions {
  int out = 1;
  int err = 2;
  bool color_out = false;
  bool color_err = false;
  std::string log_dir;    // empty: no log files
  size_t name_width = 0;  // at least so wide are prefixes
};

class Console {
 public:
  // One channel for each name, in this order; their prefixes have the same width. Makes log_dir and
  // NAME.log in it ("worker 1": worker-1.log).
  static Result<Console> Create(const ConsoleOptions& options,
                                const std::vector<std::string>& names);

  // A line of a process, to the stream that it was written to.
  void ProcessLine(size_t channel, Stream stream, std::string_view line);
  // "millrace-launch: ..." on standard error; never held back.
  void Say(std::string_view message);
  // Plain text on standard output; never held back.
  void Print(std::string_view text);

  // Keeps lines of processes back until Release, so that the tables stand before them.
  void Hold() { is_held_ = true; }
  void Release();

  // The outlets that wait for room, for poll.
  Outlet& out() { return out_; }
  Outlet& err() { return err_; }
  // So much is waiting that no more should be read from the processes.
  bool is_full() const;
  void Flush();
  // Gives up a terminal or pager that reads no more: nothing waits for it.
  void GiveUp();
  // Says what log files have lost.
  void Finish();

 private:
  struct Channel {
    std::string prefix;
    std::string color;
    UniqueFd log_fd;
    std::optional<Outlet> log;
  };
  struct HeldLine {
    size_t channel;
    Stream stream;
    std::string line;
  };

  explicit Console(const ConsoleOptions& options);
  Status OpenLog(const std::string& name, Channel& channel);
  void Show(size_t channel, Stream stream, std::string_view line);
  void PassOnComplaint(Outlet& from);

  ConsoleOptions options_;
  Outlet out_, err_;
  std::vector<Channel> channels_;
  bool is_held_ = false;
  std::vector<HeldLine> held_;
};

}  // namespace millrace::tools
