// SPDX-License-Identifier: Apache-2.0
#include "tools/report/run_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <span>

#include "io/record/byte_source.h"
#include "tools/common/progress.h"

namespace millrace::report {
namespace {

constexpr size_t kReadBytes = 1 << 20;
constexpr size_t kMagicBytes = 16;  // the first bytes show the compression

class OpenFile {
 public:
  explicit OpenFile(const std::string& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY)) {}
  ~OpenFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

Status NotRegular(const std::string& path, const char* found) {
  return Invalid(path + ": expected a regular file, found " + found);
}

const char* KindName(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

// Appends pieces of `read` (Status(span, size_t*)) until the end.
template <typename Read>
Status ReadAll(const Read& read, const std::string& path, MemoryBudget& budget, std::string& text) {
  for (size_t got = kReadBytes; got == kReadBytes;) {
    const size_t old = text.size();
    text.resize(old + kReadBytes);
    RETURN_IF_ERROR(read(std::span<char>(text.data() + old, kReadBytes), &got));
    text.resize(old + got);
    if (!budget.Take(got)) return budget.Exceeded(path);
  }
  return {};
}

}  // namespace

Status MemoryBudget::Exceeded(const std::string& path) const {
  return Failed(path + ": needs more than what is left of the limit of " + tools::BytesText(all_) +
                " for the data of a run");
}

Result<std::string> ReadRegularFile(const std::string& path, MemoryBudget& budget) {
  const OpenFile file(path);
  if (file.fd() < 0 && errno == ELOOP) return NotRegular(path, "a symbolic link");
  if (file.fd() < 0 && errno == ENXIO) return NotRegular(path, "a socket");
  if (file.fd() < 0) return IoError("cannot read " + path, errno);
  struct stat info {};
  if (::fstat(file.fd(), &info) != 0) return IoError("cannot read " + path, errno);
  if (!S_ISREG(info.st_mode)) return NotRegular(path, KindName(info.st_mode));
  const auto size = static_cast<uint64_t>(std::max<off_t>(0, info.st_size));
  if (size > budget.left()) return budget.Exceeded(path);
  std::string text;
  text.reserve(size + kReadBytes);  // the last read finds the end
  const auto read = [&](std::span<char> out, size_t* delivered) -> Status {
    for (*delivered = 0; *delivered < out.size();) {
      const ssize_t got = ::read(file.fd(), out.data() + *delivered, out.size() - *delivered);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return IoError("cannot read " + path, errno);
      if (got == 0) break;
      *delivered += static_cast<size_t>(got);
    }
    return {};
  };
  RETURN_IF_ERROR(ReadAll(read, path, budget, text));
  return text;
}

Result<bool> Expand(std::string_view bytes, const std::string& path, MemoryBudget& budget,
                    std::string& text) {
  const io::Compression compression = io::DetectCompression(bytes.substr(0, kMagicBytes));
  if (compression == io::Compression::kNone) return false;
  const io::OpenedSource source =
      io::Decompressed(std::make_unique<io::MemorySource>(bytes), path, compression);
  const auto read = [&](std::span<char> out, size_t* delivered) {
    return source.bytes->Read(out, delivered);
  };
  RETURN_IF_ERROR(ReadAll(read, path, budget, text));
  return true;
}

std::string_view Shortened(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  size_t end = max_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end);
}

}  // namespace millrace::report
