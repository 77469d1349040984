// SPDX-License-Identifier: Apache-2.0
// The output of the launcher: its own messages, the lines of all processes, each with the name of
// its process, and optional log files with the same lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/base/status.h"
#include "tools/launch/child/unique_fd.h"

namespace millrace::launch {

// Writes text to a file descriptor that may be slow, full or closed: standard output, standard
// error or a log file.
//
// Append only queues; Flush writes what the descriptor takes without blocking. So a reader that
// stops reading (a pager) cannot keep the launcher from handling signals. Text that a full disk
// rejects is dropped and counted. After any other error nothing more is written.
class NonblockingWriter {
 public:
  // `name` is for messages. The caller owns the descriptor.
  NonblockingWriter(int fd, std::string name) : fd_(fd), name_(std::move(name)) {}

  void Append(std::string_view text) {
    if (!is_closed_) pending_ += text;
  }
  // Writes as much as there is room for.
  void Flush();

  int fd() const { return fd_; }
  size_t backlog() const { return pending_.size() - written_; }
  // The memory for pending text. It stays bounded, however much text has been written.
  size_t memory_bytes() const { return pending_.capacity(); }
  // Drops pending and future text.
  void Close() {
    is_closed_ = true;
    Clear();
  }

  // The error since the last call; "" if there was none. Only the first error of a writer is
  // reported.
  std::string TakeError() { return std::exchange(error_, {}); }
  uint64_t lost_bytes() const { return lost_bytes_; }

 private:
  void Fail(int error, size_t bytes);
  void Clear() { pending_.clear(), written_ = 0; }

  int fd_;
  std::string name_;
  std::string pending_;
  size_t written_ = 0;  // of pending_
  bool is_closed_ = false;
  uint64_t lost_bytes_ = 0;
  std::string error_;
};

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
  // The texts of the next two may contain what other hosts and processes wrote: control characters
  // are escaped.

  // Prints "millrace-launch: ..." on standard error, also between Hold and Release.
  void Note(std::string_view message);
  // Prints text of several lines on standard output, also between Hold and Release.
  void Print(std::string_view text);

  // Delays the lines of processes until Release, so that the tables come first.
  void Hold() { is_held_ = true; }
  void Release();

  // For poll.
  NonblockingWriter& out() { return out_; }
  NonblockingWriter& err() { return err_; }
  // True when too much output is pending: the launcher should stop reading from processes.
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
