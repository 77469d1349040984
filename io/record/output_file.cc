// SPDX-License-Identifier: Apache-2.0
#include "io/record/output_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <utility>

namespace millrace::io {
namespace {

constexpr int kTemporaryNames = 100;
constexpr uint64_t kWritebackBytes = 8 << 20;

Status CannotCreate(const std::string& path, int error_number) {
  return IoError("cannot create " + path, error_number);
}

// A symbolic link stays: its target is replaced.
std::string Resolved(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(path.c_str(), nullptr),
                                                         std::free);
  return real ? real.get() : path;
}

// Does not reuse the temporary files of killed processes.
int OpenTemporary(const std::string& target, std::string* temporary) {
  for (int attempt = 0; attempt < kTemporaryNames; ++attempt) {
    *temporary = target + ".tmp-" + std::to_string(getpid()) + "-" + std::to_string(attempt);
    const int fd = open(temporary->c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

// The entry of a renamed file is durable once its directory is. Some file systems cannot sync a
// directory; the file itself is safe then.
void SyncDirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int fd = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);
  close(fd);
}

void AwaitWritable(int fd) {
  pollfd waiting = {.fd = fd, .events = POLLOUT, .revents = 0};
  poll(&waiting, 1, -1);
}

}  // namespace

Result<OutputFile> OutputFile::Create(const std::string& path) {
  if (path.empty()) return Invalid("the name of the file to write is empty");
  if (path == "-" || path == "/dev/stdout") return OutputFile("standard output", "", STDOUT_FILENO);
  struct stat info;
  const bool exists = stat(path.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) return CannotCreate(path, EISDIR);
  if (exists && !S_ISREG(info.st_mode)) {
    const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0) return CannotCreate(path, errno);
    return OutputFile(path, "", fd);
  }
  std::string target = Resolved(path);
  std::string temporary;
  const int fd = OpenTemporary(target, &temporary);
  if (fd < 0) return CannotCreate(path, errno);
  return OutputFile(std::move(target), std::move(temporary), fd);
}

Result<OutputFile> OutputFile::CreateNew(const std::string& path) {
  struct stat info;
  if (lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return CannotCreate(path, EISDIR);
  std::string temporary;
  const int fd = OpenTemporary(path, &temporary);
  if (fd < 0) return CannotCreate(path, errno);
  return OutputFile(path, std::move(temporary), fd);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      fd_(std::exchange(other.fd_, -1)),
      written_(other.written_),
      writeback_(other.writeback_) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  if (this == &other) return *this;
  Abandon();
  path_ = std::move(other.path_);
  temporary_ = std::move(other.temporary_);
  fd_ = std::exchange(other.fd_, -1);
  written_ = other.written_;
  writeback_ = other.writeback_;
  return *this;
}

OutputFile::~OutputFile() { Abandon(); }

void OutputFile::Abandon() {
  if (fd_ < 0) return;
  if (fd_ != STDOUT_FILENO) close(fd_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
  fd_ = -1;
}

Status OutputFile::Write(std::string_view bytes) {
  CHECK(fd_ >= 0);
  while (!bytes.empty()) {
    const ssize_t count = write(fd_, bytes.data(), bytes.size());
    if (count > 0) {
      bytes.remove_prefix(static_cast<size_t>(count));
      written_ += static_cast<uint64_t>(count);
    } else if (count < 0 && errno == EAGAIN) {
      AwaitWritable(fd_);
    } else if (count == 0 || errno != EINTR) {
      return Error("cannot write", count == 0 ? EIO : errno);
    }
  }
  StartWriteback();
  return {};
}

// The disk writes while the program produces the next bytes, so that the final sync is short.
void OutputFile::StartWriteback() {
  if (temporary_.empty() || written_ - writeback_ < kWritebackBytes) return;
  sync_file_range(fd_, static_cast<off64_t>(writeback_),
                  static_cast<off64_t>(written_ - writeback_), SYNC_FILE_RANGE_WRITE);
  writeback_ = written_;
}

Status OutputFile::Commit() {
  CHECK(fd_ >= 0);
  if (temporary_.empty()) {
    const int fd = std::exchange(fd_, -1);
    if (fd != STDOUT_FILENO && close(fd) != 0) return Error("cannot close", errno);
    return {};
  }
  if (fsync(fd_) != 0) return Error("cannot sync", errno);
  if (rename(temporary_.c_str(), path_.c_str()) != 0)
    return Error("cannot rename the finished file to", errno);
  temporary_.clear();
  const int fd = std::exchange(fd_, -1);
  if (close(fd) != 0) return Error("cannot close", errno);
  SyncDirectoryOf(path_);
  return {};
}

Status OutputFile::Error(const char* what, int error_number) const {
  return IoError(std::string(what) + " " + path_, error_number);
}

}  // namespace millrace::io
