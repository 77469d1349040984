// The output of the launcher: its own messages, the lines of all processes, each with the name of
// its process, and optional log files with the same lines.
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

namespace millrace::launch {

enum class Stream { kOut, kErr };

struct ConsoleOptions {
  int out = 1;
  int err = 2;
  bool color_out = false;
  bool color_err = false;
  std::string log_dir;    // empty: no log files
  size_t name_width = 0;  // minimum width of the names before lines
};

class Console {
 public:
  // Creates one channel per name, in this order, and NAME.log in log_dir ("worker 1":
  // worker-1.log).
  static Result<Console> Create(const ConsoleOptions& options,
                                const std::vector<std::string>& names);

  // Shows a line of a process on the stream to which the process wrote it.
  void ProcessLine(size_t channel, Stream stream, std::string_view line);
  // Prints "millrace-launch: ..." on standard error, also between Hold and Release.
  void Note(std::string_view message);
  // Prints plain text on standard output, also between Hold and Release.
  void Print(std::string_view text);

  // Delays the lines of processes until Release, so that the tables come first.
  void Hold() { is_held_ = true; }
  void Release();

  // For poll.
  NonblockingWriter& out() { return out_; }
  NonblockingWriter& err() { return err_; }
  // True when so much output is pending that the launcher should stop reading from processes.
  bool is_full() const;
  void Flush();
  // Drops all output to a terminal or pager that has stopped reading.
  void CloseOutputs();
  // Reports how many bytes are missing in log files.
  void ReportLostBytes();

 private:
  struct Channel {
    std::string prefix;
    std::string color;
    UniqueFd log_fd;
    std::optional<NonblockingWriter> log;
  };
  struct HeldLine {
    size_t channel;
    Stream stream;
    std::string line;
  };

  explicit Console(const ConsoleOptions& options);
  Status OpenLog(const std::string& name, Channel& channel);
  void Show(size_t channel, Stream stream, std::string_view line);
  void NoteError(NonblockingWriter& from);

  ConsoleOptions options_;
  NonblockingWriter out_, err_;
  std::vector<Channel> channels_;
  bool is_held_ = false;
  std::vector<HeldLine> held_;
};

}  // namespace millrace::launch
