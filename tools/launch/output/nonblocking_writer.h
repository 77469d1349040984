// A place where text goes that may be slow, full or closed: standard output, standard error, a log
// file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace millrace::tools {

// Text is kept until Flush can write it without waiting, so a reader that stops reading (a pager)
// does not stop the launcher from hearing signals. What a full disk refuses is dropped and counted;
// a reader that has gone is not tried again.
class Outlet {
 public:
  // `name` is for messages. The descriptor is the caller's.
  Outlet(int fd, std::string name) : fd_(fd), name_(std::move(name)) {}

  void Append(std::string_view text) {
    if (!is_closed_) pending_ += text;
  }
  // Writes as much as there is room for.
  void Flush();

  int fd() const { return fd_; }
  size_t backlog() const { return pending_.size() - written_; }
  // Drops what is pending and what will come.
  void Close() {
    is_closed_ = true;
    Clear();
  }

  // What went wrong since the last call; "" if nothing did. Told once for a place, however often it
  // fails.
  std::string TakeComplaint() { return std::exchange(complaint_, {}); }
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
  std::string complaint_;
};

}  // namespace millrace::tools
