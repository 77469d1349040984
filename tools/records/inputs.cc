#include "tools/records/inputs.h"

#include <algorithm>

#include "io/stream/file_list.h"

namespace millrace::tools {

Result<std::vector<std::string>> InputFiles(const Args& args) {
  if (args.empty()) {
    return Invalid("no input: name files, globs in quotes, @list, or - for standard input");
  }
  std::vector<std::string> files;
  for (const std::string& arg : args) {
    ASSIGN_OR_RETURN(const std::vector<std::string> expanded, io::ExpandFiles(arg));
    files.insert(files.end(), expanded.begin(), expanded.end());
  }
  if (std::count(files.begin(), files.end(), "-") > 1) {
    return Invalid("standard input (-) can be read only once");
  }
  return files;
}

}  // namespace millrace::tools
