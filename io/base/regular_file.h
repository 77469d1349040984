// SPDX-License-Identifier: Apache-2.0
// Files with fixed names, such as run.json. Another user of the folder may have put a FIFO, which
// blocks its reader, or a symbolic link to another file in their place.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "io/base/status.h"

namespace millrace {

// Opens `path` with the `flags` of open(2) and returns the descriptor. Everything but a regular
// file is an error, and never blocks. With O_NOFOLLOW a symbolic link is an error too.
inline Result<int> OpenRegularFile(const std::string& path, int flags, mode_t mode = 0666) {
  const int fd = ::open(path.c_str(), flags | O_NONBLOCK | O_CLOEXEC, mode);
  const int error = errno;
  struct stat info = {};
  if (fd >= 0 && ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) return fd;
  if (fd >= 0) ::close(fd);
  if (fd >= 0 || error == ENXIO || (error == ELOOP && (flags & O_NOFOLLOW) != 0)) {
    return Invalid(path + ": expected a regular file, found " +
                   (fd < 0 && error == ELOOP ? "a symbolic link" : "another kind of file"));
  }
  if (error == ENOENT && (flags & O_CREAT) == 0) return NotFound(path + ": no such file");
  return IoError(path + ": cannot open", error);
}

// The whole content of a regular file.
inline Result<std::string> ReadRegularFile(const std::string& path) {
  ASSIGN_OR_RETURN(const int fd, OpenRegularFile(path, O_RDONLY));
  std::string text;
  char bytes[1 << 14];
  ssize_t size = 0;
  while ((size = ::read(fd, bytes, sizeof bytes)) > 0 || (size < 0 && errno == EINTR)) {
    if (size > 0) text.append(bytes, static_cast<size_t>(size));
  }
  const int error = errno;
  ::close(fd);
  if (size < 0) return IoError(path + ": cannot read", error);
  return text;
}

}  // namespace millrace
