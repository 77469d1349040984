// Where a program is.
#pragma once

#include <string>
#include <string_view>

#include "io/base/status.h"

namespace millrace::tools {

// The file of this process's own program.
std::string OwnPath();

// The file that `name` stands for: itself if it has a slash, else beside this program, else in
// `search_path` (folders with colons between). Code::kNotFound if there is none; other
// errors if there is one that cannot be executed.
Result<std::string> FindProgram(const std::string& name, std::string_view search_path);

}  // namespace millrace::tools
