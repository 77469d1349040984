#include "io/text/text_format.h"

#include <algorithm>

#include "io/text/criteo.h"
#include "io/text/libsvm.h"

namespace millrace::io {

const char* TextFormatName(TextFormat format) {
  constexpr const char* kNames[] = {"libsvm", "vw", "criteo"};
  return kNames[static_cast<size_t>(format)];
}

bool IsBlankLine(std::string_view line) {
  const size_t begin = line.find_first_not_of(" \t\r");
  return begin == line.npos || line[begin] == '#';
}

Result<TextFormat> GuessTextFormat(std::string_view line) {
  if (std::count(line.begin(), line.end(), '\t') == kCriteoFields) return TextFormat::kCriteo;
  if (line.find('|') != line.npos) return TextFormat::kVw;
  SparseRow row;
  ASSIGN_OR_RETURN([[maybe_unused]] const bool is_row, ParseLibsvmLine(line, {}, row));
  return TextFormat::kLibsvm;
}

}  // namespace millrace::io
