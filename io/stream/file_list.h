// Which files a pattern means.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/base/status.h"

namespace millrace::io {

// A comma list of file names, globs ("day_*.tfrecord") and "@list" (a file with one pattern a line;
// blank lines and lines that begin with # are passed over). "-" is standard input. A glob's files
// are sorted, and patterns keep their order. It is an error if a pattern matches nothing, or if
// there is no pattern at all.
Result<std::vector<std::string>> ExpandFiles(std::string_view patterns);

}  // namespace millrace::io
