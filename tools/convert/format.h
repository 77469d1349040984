// The formats that convert reads, and telling them apart by their content.
#pragma once

#include <string>
#include <string_view>

#include "io/base/status.h"

namespace millrace::convert {

enum class Format { kLibsvm, kVw, kCriteo, kMnist, kImages };

// "libsvm", "vw", "criteo", "mnist", "images".
const char* FormatName(Format format);
Result<Format> FormatFromName(std::string_view name);

// A folder holds images; two zero bytes and a type begin an IDX file; of text, the first line that
// is neither blank nor a comment decides. Compressed files are looked into. Standard input cannot
// be looked at twice and is an error.
Result<Format> DetectFormat(const std::string& path);

}  // namespace millrace::convert
