#include "io/stream/input_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "io/base/crc32c.h"
#include "io/base/random.h"
#include "io/record/byte_source.h"

namespace millrace::io {
namespace {

constexpr size_t kFingerprintBytes = 4096;  // from each end of a file

// Of a regular file: its size and the CRC of both ends.
uint64_t FileFingerprint(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return 0;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char bytes[kFingerprintBytes];
  uint32_t crc = 0;
  for (const off_t at : {off_t{0}, std::max<off_t>(0, info.st_size - off_t{kFingerprintBytes})}) {
    const ssize_t got = ::pread(fd, bytes, sizeof bytes, at);
    if (got > 0) crc = Crc32c(bytes, static_cast<size_t>(got), crc);
  }
  ::close(fd);
  return Mix64(static_cast<uint64_t>(info.st_size)) ^ crc;
}

Status CheckFile(const std::string& file) {
  struct stat info {};
  if (file == "-") return {};
  if (::stat(file.c_str(), &info) != 0) return IoError(file + ": cannot open", errno);
  if (S_ISDIR(info.st_mode)) return DirectoryError(file);
  if (::access(file.c_str(), R_OK) != 0) return IoError(file + ": cannot open", errno);
  return {};
}

}  // namespace

Status CheckInputFiles(const std::vector<std::string>& files) {
  for (const std::string& file : files) RETURN_IF_ERROR(CheckFile(file));
  return {};
}

Status CheckReadableAgain(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    struct stat info {};
    if (file == "-") return Invalid("standard input can be read once only: expected epochs = 1");
    if (::stat(file.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
      return Invalid(file + ": a pipe can be read once only: expected epochs = 1");
  }
  return {};
}

uint64_t FingerprintOf(const std::vector<std::string>& files) {
  uint64_t print = files.size();
  for (const std::string& file : files) print = Mix64(print + FileFingerprint(file));
  return print;
}

}  // namespace millrace::io
