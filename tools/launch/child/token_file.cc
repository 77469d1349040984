// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/child/token_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

namespace millrace::launch {
namespace {

Status WriteSecret(const std::string& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return IoError(path + ": cannot create", errno);
  const ssize_t written = ::write(fd, text.data(), text.size());
  const int error = written < 0 ? errno : ENOSPC;
  ::close(fd);
  if (written == static_cast<ssize_t>(text.size())) return {};
  return IoError(path + ": cannot write", error);
}

}  // namespace

Result<std::string> RandomToken() {
  unsigned char bytes[32];
  if (::getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
    return IoError("no random bytes for the job's token", errno);
  std::string token;
  for (const unsigned char byte : bytes) {
    token += "0123456789abcdef"[byte >> 4];
    token += "0123456789abcdef"[byte & 15];
  }
  return token;
}

Result<TokenFile> TokenFile::Create(const std::string& token) {
  std::error_code error;
  std::string folder = (std::filesystem::temp_directory_path(error) / "millrace-XXXXXX").string();
  if (error) folder = "/tmp/millrace-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr)
    return IoError(folder + ": cannot make a folder for the job's token", errno);
  TokenFile file(folder);
  RETURN_IF_ERROR(WriteSecret(file.path(), token + "\n"));
  return file;
}

TokenFile::TokenFile(TokenFile&& other) noexcept : folder_(std::exchange(other.folder_, "")) {}

TokenFile::~TokenFile() {
  if (folder_.empty()) return;
  ::unlink(path().c_str());
  ::rmdir(folder_.c_str());
}

}  // namespace millrace::launch
