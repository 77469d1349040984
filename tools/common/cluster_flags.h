// The flags by which the processes of a job find each other, for servers and trainers alike.
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
// All three files can be read, or none is named.
Result<ps::TlsFiles> TlsFromFlags();
bool PollFromFlags();
// The content of --token_file without the line end; empty without the flag. A file that others may
// read is an error.
Result<std::string> TokenFromFlags();
// "host, pid 123"
std::string ProcessName();

}  // namespace millrace::tools
