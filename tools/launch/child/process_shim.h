// The process between a launcher and one process of its job: it starts that process, passes signals
// on, and leaves nothing of it behind, not even when the launcher is killed or the connection to it
// is lost. The same on this host and, through ssh, on others.
//
// Standard input carries keeper_message.h; standard output and error are those of the process. The
// first line on standard error is the keeper's own, and tells the process's pid. The exit status is
// that of the process; 128 + n when signal n killed it; 126 or 127 when it could not be started.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string_view>

namespace millrace::tools {

// The word that makes millrace-launch a keeper.
constexpr char kKeeperFlag[] = "--keep";

int RunKeeper();

// The pid in the keeper's line, if `line` is that.
std::optional<pid_t> KeptPid(std::string_view line);

}  // namespace millrace::tools
