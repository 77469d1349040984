// Other hosts, by ssh.
#pragma once

#include <string>
#include <vector>

#include "io/base/status.h"
#include "tools/launch/hosts.h"
#include "tools/launch/launch_options.h"

namespace millrace::tools {

// `text` as one word for a shell.
std::string ShellQuoted(const std::string& text);

// The command that runs `words` on the host `destination`. OpenSSH is told to ask nobody anything,
// and to notice within seconds that the other host is gone; what `ssh` itself says comes first and
// so counts.
Words RemoteCommand(const Words& ssh, const std::string& destination, const Words& words);

// Asks all hosts at once to describe themselves. An error names the host that cannot run the job,
// and why.
Result<std::vector<HostReport>> ReportRemoteHosts(const LaunchOptions& options,
                                                  const std::string& directory);

// A server that listens on a loopback address is of no use to workers of other hosts.
Status CheckAddresses(const LaunchOptions& options, const std::vector<HostReport>& hosts);

}  // namespace millrace::tools
