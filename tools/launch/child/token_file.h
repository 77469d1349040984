// SPDX-License-Identifier: Apache-2.0
// The secret token of a job, and a file for it that only its owner can read.
#pragma once

#include <string>

#include "io/base/status.h"
#include "tools/launch/child/unique_fd.h"

namespace millrace::launch {

// 32 random bytes from the kernel as 64 hexadecimal digits.
Result<std::string> RandomToken();

// A file of mode 600 in memory. It has no name in any folder, so a killed process leaves none
// behind. Other processes of the same user and host can read it while this process has it open.
class TokenFile {
 public:
  static Result<TokenFile> Create(const std::string& token);

  // /proc/PID/fd/N
  std::string path() const;

 private:
  explicit TokenFile(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace millrace::launch
