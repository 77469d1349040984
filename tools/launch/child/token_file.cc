// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/child/token_file.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

namespace millrace::launch {

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
  UniqueFd fd(::memfd_create("millrace-token", MFD_CLOEXEC));
  const std::string line = token + "\n";
  if (!fd || ::fchmod(fd.get(), 0600) != 0 ||
      ::write(fd.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    return IoError("cannot make a file for the job's token", errno);
  return TokenFile(std::move(fd));
}

std::string TokenFile::path() const {
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(fd_.get());
}

}  // namespace millrace::launch
