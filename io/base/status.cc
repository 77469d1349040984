#include "io/base/status.h"

#include <cstring>

namespace millrace {

Status IoError(std::string message, int error_number) {
  return {Code::kIo, std::move(message) + ": " + std::strerror(error_number)};
}

}  // namespace millrace
