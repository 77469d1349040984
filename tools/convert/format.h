// SPDX-License-Identifier: Apache-2.0
// The formats that convert reads, and their detection by content.
#pragma once

#include <string>
#include <string_view>

#include "io/base/status.h"

namespace millrace::convert {

enum class Format {
  kLibsvm,
  kLibffm,
  kVw,
  kCriteo,
  kMnist,
  kImages,
  kTfRecord,
  kCsv,
  kJson,
  kTable
};

// "libsvm", "libffm", "vw", "criteo", "mnist", "images", "tfrecord", "csv", "json", "table".
const char* FormatName(Format format);
Result<Format> FormatFromName(std::string_view name);

// A folder has images; an IDX file begins with two zero bytes and a type; for text, the first line
// that is neither blank nor a comment decides. Compressed files are decompressed. The first bytes
// of standard input and pipes are read, see io::ReadFirstBytes.
Result<Format> DetectFormat(const std::string& path);

}  // namespace millrace::convert
