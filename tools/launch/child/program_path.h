// SPDX-License-Identifier: Apache-2.0
// Finds the files of programs.
#pragma once

#include <string>
#include <string_view>

#include "io/base/status.h"

namespace millrace::launch {

// The file of the running program.
std::string OwnPath();

// The path of the program `name`: `name` itself if it contains a slash, else a file in the folder
// of the running program, else one in `search_path` (folders separated by colons). Code::kNotFound
// if there is none; another code if there is one that cannot be executed.
Result<std::string> FindProgram(const std::string& name, std::string_view search_path);

}  // namespace millrace::launch
