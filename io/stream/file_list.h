// SPDX-License-Identifier: Apache-2.0
// Expands patterns of input files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/base/status.h"

namespace millrace::io {

// `patterns` is a comma-separated list of file names, globs ("day_*.tfrecord"; remote ones as in
// io/record/remote_files.h) and "@list" (a file with one pattern per line; blank lines and lines
// that begin with # are ignored). "-" is standard input. The files of a glob are sorted; patterns
// keep their order. A text that begins with "sql:" is one query, whatever follows. A pattern that
// matches nothing, and an empty list, are errors.
Result<std::vector<std::string>> ExpandFiles(std::string_view patterns);

}  // namespace millrace::io
