// Writes text to a file descriptor that may be slow, full or closed: standard output, standard
// error or a log file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace millrace::launch {

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

}  // namespace millrace::launch
