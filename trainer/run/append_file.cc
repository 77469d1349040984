// SPDX-License-Identifier: Apache-2.0
#include "trainer/run/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "io/base/regular_file.h"

namespace millrace::trainer {
namespace {

// The rest of the row did not fit: takes its beginning away again.
void TakeBack(int fd, size_t written) {
  const off_t end = lseek(fd, 0, SEEK_END);
  if (end < 0) return;
  [[maybe_unused]] const int best_effort = ftruncate(fd, end - static_cast<off_t>(written));
}

}  // namespace

Result<AppendFile> AppendFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(const int fd, OpenRegularFile(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW));
  return AppendFile(path, fd);
}

AppendFile::~AppendFile() {
  if (fd_ >= 0) close(fd_);
}

Status AppendFile::Append(std::string_view row) {
  ssize_t count = 0;
  do {
    count = write(fd_, row.data(), row.size());
  } while (count < 0 && errno == EINTR);
  if (count < 0) return IoError("cannot write " + path_, errno);
  if (static_cast<size_t>(count) == row.size()) return {};
  TakeBack(fd_, static_cast<size_t>(count));
  return IoError("cannot write " + path_, ENOSPC);
}

Status AppendFile::Sync() {
  if (fdatasync(fd_) != 0) return IoError("cannot sync " + path_, errno);
  return {};
}

}  // namespace millrace::trainer
