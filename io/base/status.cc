#include "io/base/status.h"

#include <cstring>

namespace millrace::io {

Status IoError(std::string message, int error_number) {
  return {Code::kIo, std::move(message) + ": " + std::strerror(error_number)};
}

}  // namespace millrace::io
