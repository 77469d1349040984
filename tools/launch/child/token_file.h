// SPDX-License-Identifier: Apache-2.0
// The secret token of a job, and a file for it that only its owner can read.
#pragma once

#include <string>

#include "io/base/status.h"

namespace millrace::launch {

// 32 random bytes from the kernel as 64 hexadecimal digits.
Result<std::string> RandomToken();

// A file of mode 600 in a new folder of mode 700. The destructor removes both.
class TokenFile {
 public:
  static Result<TokenFile> Create(const std::string& token);
  TokenFile(TokenFile&& other) noexcept;
  TokenFile& operator=(TokenFile&&) = delete;
  ~TokenFile();

  std::string path() const { return folder_ + "/token"; }

 private:
  explicit TokenFile(std::string folder) : folder_(std::move(folder)) {}

  std::string folder_;  // empty: moved from
};

}  // namespace millrace::launch
