// A secret in a file that nobody else may read.
#pragma once

#include <string>

#include "io/base/status.h"

namespace millrace::tools {

// 32 random bytes from the kernel as 64 hexadecimal digits.
Result<std::string> RandomToken();

// A file of mode 600 in a folder of its own, of mode 700; both go with the object.
class TokenFile {
 public:
  static Result<TokenFile> Create(const std::string& token);
  TokenFile(TokenFile&& other) noexcept;
  TokenFile& operator=(TokenFile&&) = delete;
  ~TokenFile();

  std::string path() const { return folder_ + "/token"; }

 private:
  explicit TokenFile(std::string folder) : folder_(std::move(folder)) {}

  std::string folder_;  // empty: moved away
};

}  // namespace millrace::tools
