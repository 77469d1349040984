// SPDX-License-Identifier: Apache-2.0
// The flags with which the processes of a job find each other. Servers and training programs have
// them.
#pragma once

#include <string>
#include <vector>

#include "io/base/status.h"
#include "ps/wire/endpoint.h"
#include "ps/worker/thrift_transport.h"
#include "tools/common/flags.h"

namespace millrace::tools {

// For the help.
FlagGroup ServerFlags();

// "a, b,c" -> a b c
std::vector<std::string> SplitList(const std::string& text);

Result<std::vector<ps::HostPort>> PsHostsFromFlags();
std::vector<std::string> WorkerHostsFromFlags();
// Checks that either all three files are given and readable, or none is given.
Result<ps::TlsFiles> TlsFromFlags();
// The first line of --token_file; empty without the flag. A file that other users can read is an
// error.
Result<std::string> TokenFromFlags();
// "host, pid 123"
std::string ProcessName();

}  // namespace millrace::tools
