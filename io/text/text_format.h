// Tells the text formats apart by a line.
#pragma once

#include <string_view>

#include "io/base/status.h"

namespace millrace::io {

enum class TextFormat { kLibsvm, kVw, kCriteo };
// "libsvm", "vw", "criteo".
const char* TextFormatName(TextFormat format);

// Blank, or a comment: nothing to tell a format by.
bool IsBlankLine(std::string_view line);

// `line` is not blank. The error says what is wrong with it as libsvm, the format of least shape.
Result<TextFormat> GuessTextFormat(std::string_view line);

}  // namespace millrace::io
