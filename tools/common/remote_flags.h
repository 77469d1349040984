// SPDX-License-Identifier: Apache-2.0
// The flags of remote input files (s3://, https://, http://), and what AWS's own programs read:
// credentials, region and endpoint from the environment, ~/.aws/credentials and ~/.aws/config.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "io/record/remote_options.h"
#include "tools/common/flags.h"

namespace millrace::tools {

// Adds the flags to a command that reads input files.
CommandSpec WithRemoteFlags(CommandSpec spec);

// Remote files are reached as the flags, the environment and the files of AWS say, which are read
// when the first remote file is used. `program` begins notes about retries on standard error.
void UseRemoteFlags(const char* program);

// An error for a flag that has no effect on `files`.
Status CheckRemoteFlags(const std::vector<std::string>& files);

// The options that the environment and the files of AWS give. `variable` returns the value of an
// environment variable, empty if it is not set.
Result<io::RemoteOptions> AwsOptions(
    const std::function<std::string(const std::string&)>& variable);

}  // namespace millrace::tools
