// SPDX-License-Identifier: Apache-2.0
// The process shim runs between the launcher and one process of the job. It starts that process,
// forwards signals to it and kills all its descendants when it exits, when the launcher is killed
// or when the connection to the launcher is lost. The launcher starts it as a child on this host
// and through ssh on other hosts.
//
// Standard input carries the messages of shim_message.h; standard output and error are those of the
// process. The first line on standard error is written by the shim and contains the process's pid.
// The exit status is that of the process: 128 + n if signal n killed it, 126 or 127 if it could not
// be started.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string_view>

namespace millrace::launch {

// The argument that makes millrace-launch run as a process shim.
constexpr char kShimFlag[] = "--process_shim";

// `search_path` lists the folders for programs, separated by colons. Returns the exit status.
int RunProcessShim(std::string_view search_path);

// The pid in the shim's first line; nothing if `line` is another line.
std::optional<pid_t> PidFromShimLine(std::string_view line);

}  // namespace millrace::launch
