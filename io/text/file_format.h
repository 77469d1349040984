// SPDX-License-Identifier: Apache-2.0
// Detects what a file holds from its first bytes or from a line of it.
#pragma once

#include <string>
#include <string_view>

#include "io/base/status.h"

namespace millrace::io {

enum class TextFormat { kLibsvm, kVw, kCriteo };
// "libsvm", "vw", "criteo".
const char* TextFormatName(TextFormat format);

// A blank line or a comment, which does not identify a format.
bool IsBlankLine(std::string_view line);

// `line` is not blank. The error states why the line is not libsvm, the format with the fewest
// rules.
Result<TextFormat> DetectTextFormat(std::string_view line);

// The end of an error message about the first record of a supposed TFRecord file, from the file's
// first (decompressed) bytes: "; the file looks like libsvm text: ...", with what to do instead.
// Empty where the bytes match no known format. Suits BlockOptions::describe_content.
std::string DescribeContent(std::string_view first_bytes);

}  // namespace millrace::io
