// The files that a command line names.
#pragma once

#include <string>
#include <vector>

#include "io/base/status.h"
#include "tools/common/flags.h"

namespace millrace::tools {

// Each argument is a file, a glob, a comma list of these, @file with a list, or - for standard
// input.
Result<std::vector<std::string>> InputFiles(const Args& args);

}  // namespace millrace::tools
