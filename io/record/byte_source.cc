// SPDX-License-Identifier: Apache-2.0
#include "io/record/byte_source.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#include "io/base/raw_buffer.h"
#include "io/record/record_format.h"
#include "io/record/remote_files.h"
#include "profiler/trace.h"

namespace millrace::io {
namespace {

constexpr size_t kCompressedChunkBytes = 256 << 10;
constexpr size_t kPieceBytes = 16 << 10;
// The decoder keeps a window of up to 2^kMaxWindowLog bytes (zstd's own default).
constexpr int kMaxWindowLog = 27;

// Whether data that begins with `first` may be compressed. Longer data has the same first bytes.
bool MayBeCompressed(std::string_view first) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(first[i]); };
  if (first.empty()) return true;
  if (byte(0) == 0x78) return first.size() < 2 || (byte(0) * 256 + byte(1)) % 31 == 0;
  for (const std::string_view magic : {"\x1f\x8b\x08", "\x28\xb5\x2f\xfd"}) {
    if (magic.starts_with(first.substr(0, magic.size()))) return true;
  }
  return false;
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&&) = delete;
  ~FileDescriptor() {
    if (fd_ > STDIN_FILENO) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

// A file, FIFO or standard input. Peeked bytes are delivered by Read as well.
class FileSource : public ByteSource {
 public:
  FileSource(std::string path, FileDescriptor fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  // Reads until there are kFirstBytes or two lines of text, and returns what more is there without
  // waiting. Read delivers these bytes again. Call it before Read.
  Result<std::string_view> PeekLines() {
    std::vector<char> bytes(kFirstBytes);
    while (peeked_.size() < bytes.size()) {
      const bool has_lines = std::count(peeked_.begin(), peeked_.end(), '\n') >= 2;
      if (has_lines && !MayBeCompressed(peeked_) && !HasBytes()) break;
      ASSIGN_OR_RETURN(const size_t got, PeekMore(bytes));
      if (got == 0) break;
    }
    return Peeked();
  }

  Status Read(std::span<char> out, size_t* delivered) override {
    return ReadAtLeast(out.size(), out, delivered);
  }
  Status ReadSome(std::span<char> out, size_t* delivered) override {
    return ReadAtLeast(1, out, delivered);
  }

  // The first bytes of the data, which Read still delivers: enough to detect its compression, and
  // no more than arrive without waiting if these show that there is none. Call it before Read.
  Result<std::string_view> Peek() {
    std::array<char, kRecordHeaderBytes> bytes;
    while (peeked_.size() < bytes.size() && MayBeCompressed(peeked_)) {
      ASSIGN_OR_RETURN(const size_t got, PeekMore(bytes));
      if (got == 0) break;
    }
    return Peeked();
  }

 private:
  // Reads after the peeked bytes, into the same place of `bytes`.
  Result<size_t> PeekMore(std::span<char> bytes) {
    size_t got = 0;
    peek_used_ = peeked_.size();
    RETURN_IF_ERROR(ReadSome(bytes.subspan(peeked_.size()), &got));
    peeked_.append(bytes.data() + peek_used_, got);
    return got;
  }
  std::string_view Peeked() {
    peek_used_ = 0;
    position_ = 0;
    return peeked_;
  }
  bool HasBytes() const {
    pollfd wait{.fd = fd_.get(), .events = POLLIN, .revents = 0};
    return ::poll(&wait, 1, 0) > 0;
  }
  Status ReadAtLeast(size_t least, std::span<char> out, size_t* delivered) {
    size_t done = std::min(out.size(), peeked_.size() - peek_used_);
    if (done > 0) std::memcpy(out.data(), peeked_.data() + peek_used_, done);
    peek_used_ += done;
    while (done < std::min(least, out.size())) {
      const ssize_t got = ::read(fd_.get(), out.data() + done, out.size() - done);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) {
        *delivered = done;
        return IoError(path_ + ": offset " + std::to_string(position_ + done) + ": cannot read",
                       errno);
      }
      if (got == 0) break;
      done += static_cast<size_t>(got);
    }
    *delivered = done;
    position_ += done;
    return {};
  }

  std::string path_;
  FileDescriptor fd_;
  std::string peeked_;
  size_t peek_used_ = 0;
  uint64_t position_ = 0;
};

// The input of the decompressors: chunks of compressed bytes, and errors with their offset.
class CompressedInput {
 public:
  CompressedInput(std::string path, std::unique_ptr<ByteSource> source)
      : path_(std::move(path)), source_(std::move(source)) {
    chunk_.Resize(kCompressedChunkBytes);
  }

  // The compressed bytes not yet used; fetches more when there are none. Empty at the end.
  Result<std::span<const char>> Available() {
    if (used_ == filled_ && !ended_) {
      position_ += filled_;
      used_ = filled_ = 0;
      TRACE_SCOPE("read_compressed", profiler::Cat::kDisk);
      const Status status = source_->Read({chunk_.data(), chunk_.size()}, &filled_);
      ended_ = filled_ < chunk_.size();
      if (filled_ == 0) RETURN_IF_ERROR(status);
    }
    return std::span<const char>(chunk_.data() + used_, filled_ - used_);
  }
  void Use(size_t bytes) { used_ += bytes; }

  Status CorruptStream(Compression kind, const std::string& what) const {
    return Corrupt(path_ + ": compressed offset " + std::to_string(position_ + used_) +
                   ": expected " + CompressionName(kind) + " data, found " + what);
  }

 private:
  std::string path_;
  std::unique_ptr<ByteSource> source_;
  RawBuffer chunk_;
  size_t used_ = 0;
  size_t filled_ = 0;
  uint64_t position_ = 0;  // of chunk_[0] in the file
  bool ended_ = false;
};

// gzip (of one or more members) and zlib.
class InflateSource : public ByteSource {
 public:
  InflateSource(std::string path, std::unique_ptr<ByteSource> source, Compression kind)
      : input_(std::move(path), std::move(source)), kind_(kind) {
    const int code = inflateInit2(&stream_, kind == Compression::kGzip ? 15 + 16 : 15);
    if (code == Z_MEM_ERROR) throw std::bad_alloc();
    CHECK(code == Z_OK);
  }
  ~InflateSource() override { inflateEnd(&stream_); }

  Status Read(std::span<char> out, size_t* delivered) override {
    TRACE_SCOPE("decompress", profiler::Cat::kInput, {.bytes = static_cast<int64_t>(out.size())});
    *delivered = 0;
    while (*delivered < out.size()) {
      ASSIGN_OR_RETURN(const std::span<const char> in, input_.Available());
      if (in.empty() && between_members_) return {};
      const size_t before = *delivered;
      RETURN_IF_ERROR(Inflate(in, out, delivered));
      // Without input, zlib may still have output to give.
      if (in.empty() && *delivered == before && !between_members_) {
        return input_.CorruptStream(kind_, "the end of the file inside the stream");
      }
    }
    return {};
  }

 private:
  Status Inflate(std::span<const char> in, std::span<char> out, size_t* delivered) {
    if (between_members_ && started_) {
      if (kind_ == Compression::kZlib)
        return input_.CorruptStream(kind_, "bytes after the end of the stream");
      inflateReset(&stream_);
    }
    started_ = true;
    between_members_ = false;
    const size_t room = std::min<size_t>(out.size() - *delivered, 1u << 30);
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
    stream_.avail_in = static_cast<uInt>(in.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out.data() + *delivered);
    stream_.avail_out = static_cast<uInt>(room);
    const int code = inflate(&stream_, Z_NO_FLUSH);
    input_.Use(in.size() - stream_.avail_in);
    *delivered += room - stream_.avail_out;
    if (code == Z_STREAM_END) between_members_ = true;
    if (code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR) return {};
    if (code == Z_MEM_ERROR) throw std::bad_alloc();
    return input_.CorruptStream(kind_, stream_.msg ? stream_.msg : "corrupt data");
  }

  CompressedInput input_;
  Compression kind_;
  z_stream stream_{};
  bool started_ = false;
  bool between_members_ = false;
};

// Any number of zstd frames.
class ZstdSource : public ByteSource {
 public:
  ZstdSource(std::string path, std::unique_ptr<ByteSource> source)
      : input_(std::move(path), std::move(source)),
        stream_(ZSTD_createDStream(), ZSTD_freeDStream) {
    if (!stream_) throw std::bad_alloc();
    CHECK(!ZSTD_isError(ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, kMaxWindowLog)));
  }

  Status Read(std::span<char> out, size_t* delivered) override {
    TRACE_SCOPE("decompress", profiler::Cat::kInput, {.bytes = static_cast<int64_t>(out.size())});
    *delivered = 0;
    while (*delivered < out.size()) {
      ASSIGN_OR_RETURN(const std::span<const char> bytes, input_.Available());
      if (bytes.empty() && between_frames_) return {};
      // Small pieces: given room for a whole frame, zstd would return nothing of a corrupt one.
      ZSTD_outBuffer to{out.data() + *delivered, std::min(out.size() - *delivered, kPieceBytes), 0};
      ZSTD_inBuffer from{bytes.data(), bytes.size(), 0};
      const size_t hint = ZSTD_decompressStream(stream_.get(), &to, &from);
      input_.Use(from.pos);
      *delivered += to.pos;
      if (ZSTD_getErrorCode(hint) == ZSTD_error_memory_allocation) throw std::bad_alloc();
      if (ZSTD_isError(hint)) return input_.CorruptStream(Compression::kZstd, ErrorText(hint));
      between_frames_ = hint == 0;
      if (bytes.empty() && to.pos == 0 && !between_frames_) {
        return input_.CorruptStream(Compression::kZstd, "the end of the file inside a frame");
      }
    }
    return {};
  }

 private:
  static std::string ErrorText(size_t code) {
    if (ZSTD_getErrorCode(code) != ZSTD_error_frameParameter_windowTooLarge)
      return ZSTD_getErrorName(code);
    return "a window above the limit of " + std::to_string(1 << (kMaxWindowLog - 20)) +
           " MiB: compress the file with zstd --long=" + std::to_string(kMaxWindowLog) + " or less";
  }

  CompressedInput input_;
  std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream*)> stream_;
  bool between_frames_ = true;
};

Result<FileDescriptor> OpenFile(const std::string& path, bool regular_file, int64_t* file_bytes) {
  if (regular_file && path == "-") return Invalid("expected a file, found - (standard input)");
  // Without O_NONBLOCK, opening a FIFO waits for its writer.
  const int flags = O_RDONLY | O_CLOEXEC | (regular_file ? O_NONBLOCK : 0);
  FileDescriptor fd(path == "-" ? STDIN_FILENO : ::open(path.c_str(), flags));
  if (fd.get() < 0 && errno == ENOENT) return NotFound(path + ": no such file");
  if (fd.get() < 0) return IoError(path + ": cannot open", errno);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return IoError(path + ": cannot stat", errno);
  if (S_ISDIR(info.st_mode)) return DirectoryError(path);
  if (regular_file && !S_ISREG(info.st_mode)) {
    return Invalid(path + ": expected a regular file, found " +
                   (S_ISFIFO(info.st_mode) ? "a FIFO" : "a device"));
  }
  *file_bytes = S_ISREG(info.st_mode) ? static_cast<int64_t>(info.st_size) : -1;
  if (S_ISREG(info.st_mode)) ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  return fd;
}

// Streams whose first bytes were read, until they are opened. Thread-safe.
class PeekedStreams {
 public:
  static PeekedStreams& Get() {
    static PeekedStreams streams;
    return streams;
  }

  std::unique_ptr<FileSource> Take(const std::string& path) {
    const std::lock_guard lock(mu_);
    const auto found = sources_.find(path);
    if (found == sources_.end()) return nullptr;
    std::unique_ptr<FileSource> source = std::move(found->second);
    sources_.erase(found);
    return source;
  }

  Result<std::string> FirstBytesOf(const std::string& path) {
    const std::lock_guard lock(mu_);
    std::unique_ptr<FileSource>& source = sources_[path];
    if (!source) {
      int64_t unused = 0;
      ASSIGN_OR_RETURN(FileDescriptor fd, OpenFile(path, /*regular_file=*/false, &unused));
      source = std::make_unique<FileSource>(path, std::move(fd));
    }
    ASSIGN_OR_RETURN(const std::string_view bytes, source->PeekLines());
    return std::string(bytes);
  }

 private:
  std::mutex mu_;
  std::map<std::string, std::unique_ptr<FileSource>> sources_;
};

// A source whose first bytes were read before.
class ResumedSource final : public ByteSource {
 public:
  ResumedSource(std::string first, std::unique_ptr<ByteSource> rest)
      : first_(std::move(first)), rest_(std::move(rest)) {}
  Status Read(std::span<char> out, size_t* delivered) override {
    const size_t size = std::min(out.size(), first_.size() - used_);
    if (size > 0) std::memcpy(out.data(), first_.data() + used_, size);
    used_ += size;
    size_t more = 0;
    const Status status = rest_->Read(out.subspan(size), &more);
    *delivered = size + more;
    return status;
  }

 private:
  std::string first_;
  std::unique_ptr<ByteSource> rest_;
  size_t used_ = 0;
};

Result<OpenedSource> OpenRemoteSource(const std::string& path) {
  ASSIGN_OR_RETURN(const RemoteFile file, FindRemoteFile(path));
  ASSIGN_OR_RETURN(auto bytes, OpenRemoteFile(path));
  std::string first(kRecordHeaderBytes, '\0');
  size_t size = 0;
  RETURN_IF_ERROR(bytes->Read(first, &size));
  first.resize(size);
  const Compression compression = DetectCompression(first);
  OpenedSource opened = Decompressed(
      std::make_unique<ResumedSource>(std::move(first), std::move(bytes)), path, compression);
  opened.file_bytes = file.bytes;
  return opened;
}

bool IsStream(const std::string& path) {
  struct stat info {};
  if (path == "-") return true;
  if (::stat(path.c_str(), &info) != 0) return false;
  return !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

}  // namespace

bool IsRegularInput(const std::string& path) {
  std::error_code ignored;
  return IsRemote(path) || std::filesystem::is_regular_file(path, ignored);
}

int64_t FileBytes(const std::string& path) {
  if (IsRemote(path)) {
    const Result<RemoteFile> file = FindRemoteFile(path);
    return file.ok() ? file->bytes : -1;
  }
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return -1;
  const uintmax_t size = std::filesystem::file_size(path, error);
  return error ? -1 : static_cast<int64_t>(size);
}

Status DirectoryError(const std::string& path) {
  const std::string all = path.ends_with('/') ? path + "*" : path + "/*";
  return Invalid(path + ": expected a file, found a directory; its files are '" + all +
                 "' (in quotes)");
}

const char* CompressionName(Compression compression) {
  switch (compression) {
    case Compression::kNone:
      return "none";
    case Compression::kGzip:
      return "gzip";
    case Compression::kZlib:
      return "zlib";
    case Compression::kZstd:
      return "zstd";
  }
  return "unknown";
}

Result<Compression> CompressionFromName(std::string_view name) {
  for (const Compression c :
       {Compression::kNone, Compression::kGzip, Compression::kZlib, Compression::kZstd}) {
    if (name == CompressionName(c)) return c;
  }
  return Invalid("compression: expected none, gzip, zlib or zstd, found '" + std::string(name) +
                 "'");
}

Compression DetectCompression(std::string_view first) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(first[i]); };
  if (first.size() >= kRecordHeaderBytes && HeaderIsValid(first.data())) return Compression::kNone;
  if (first.size() >= 3 && byte(0) == 0x1f && byte(1) == 0x8b && byte(2) == 8)
    return Compression::kGzip;
  if (first.size() >= 4 && LoadU32(first.data()) == 0xfd2fb528u) return Compression::kZstd;
  if (first.size() >= 3 && byte(0) == 0x78 && (byte(0) * 256 + byte(1)) % 31 == 0 &&
      (byte(1) & 0x20) == 0) {
    // Two bytes are a weak sign (text may begin with "x^"): compressed bytes look like no text.
    const auto is_text = [](char c) { return (c >= ' ' && c <= '~') || (c >= '\t' && c <= '\r'); };
    if (!std::all_of(first.begin(), first.end(), is_text)) return Compression::kZlib;
  }
  return Compression::kNone;
}

OpenedSource Decompressed(std::unique_ptr<ByteSource> bytes, const std::string& name,
                          Compression compression) {
  OpenedSource opened{.bytes = std::move(bytes), .compression = compression};
  switch (compression) {
    case Compression::kNone:
      break;
    case Compression::kGzip:
    case Compression::kZlib:
      opened.bytes = std::make_unique<InflateSource>(name, std::move(opened.bytes), compression);
      break;
    case Compression::kZstd:
      opened.bytes = std::make_unique<ZstdSource>(name, std::move(opened.bytes));
      break;
  }
  return opened;
}

Result<OpenedSource> OpenSource(const std::string& path, bool regular_file) {
  if (IsRemote(path)) return OpenRemoteSource(path);
  int64_t file_bytes = -1;
  std::unique_ptr<FileSource> file = regular_file ? nullptr : PeekedStreams::Get().Take(path);
  if (!file) {
    ASSIGN_OR_RETURN(FileDescriptor fd, OpenFile(path, regular_file, &file_bytes));
    file = std::make_unique<FileSource>(path, std::move(fd));
  }
  ASSIGN_OR_RETURN(const std::string_view first, file->Peek());
  const Compression compression = DetectCompression(first);
  OpenedSource opened = Decompressed(std::move(file), path, compression);
  opened.file_bytes = file_bytes;
  return opened;
}

Result<FirstBytes> ReadFirstBytes(const std::string& path) {
  std::string raw;
  OpenedSource source;
  if (IsStream(path)) {
    ASSIGN_OR_RETURN(raw, PeekedStreams::Get().FirstBytesOf(path));
    const std::string_view header = std::string_view(raw).substr(0, kRecordHeaderBytes);
    source = Decompressed(std::make_unique<MemorySource>(raw), path, DetectCompression(header));
  } else {
    ASSIGN_OR_RETURN(source, OpenSource(path, /*regular_file=*/true));
  }
  FirstBytes first{.bytes = std::string(kFirstBytes, '\0'), .compression = source.compression};
  size_t size = 0;
  const Status read = source.bytes->Read(first.bytes, &size);
  if (size == 0) RETURN_IF_ERROR(read);
  first.bytes.resize(size);
  return first;
}

}  // namespace millrace::io
