#include "tools/launch/output/nonblocking_writer.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>

#include "io/base/status.h"

namespace millrace::launch {
namespace {

bool HasRoom(int fd) {
  pollfd poll_fd = {fd, POLLOUT, 0};
  return ::poll(&poll_fd, 1, 0) > 0;
}

}  // namespace

void NonblockingWriter::Flush() {
  while (backlog() > 0 && HasRoom(fd_)) {
    // poll reports a pipe as writable if at least PIPE_BUF bytes fit.
    const size_t size = std::min<size_t>(backlog(), PIPE_BUF);
    const ssize_t written = ::write(fd_, pending_.data() + written_, size);
    if (written >= 0) {
      written_ += static_cast<size_t>(written);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      Fail(errno, size);
    }
  }
  if (backlog() == 0) Clear();
}

void NonblockingWriter::Fail(int error, size_t bytes) {
  // After these three errors a later write can succeed.
  is_closed_ = error != ENOSPC && error != EDQUOT && error != EFBIG;
  if (lost_bytes_ == 0) {
    error_ = IoError(name_ + ": cannot write", error).message() +
             "; the job continues without this output";
  }
  if (is_closed_) bytes = backlog();
  lost_bytes_ += bytes;
  written_ += bytes;
}

}  // namespace millrace::launch
