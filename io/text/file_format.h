// SPDX-License-Identifier: Apache-2.0
// Detects what a file holds from its first bytes or from a line of it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "io/base/status.h"

namespace millrace::io {

enum class FileFormat { kTfRecord, kLibsvm, kLibffm, kVw, kCriteo, kCsv, kJson, kIdx, kTable };
// "tfrecord", "libsvm", "libffm", "vw", "criteo", "csv", "json", "idx", "table" (Parquet).
const char* FileFormatName(FileFormat format);

// A blank line or a comment, which does not identify a format.
bool IsBlankLine(std::string_view line);

// `line` is not blank; it may lack a label. The error states why the line is not libsvm, the format
// with the fewest rules. CSV and JSON are not detected by a single line.
Result<FileFormat> DetectTextFormat(std::string_view line);

// What a file's first bytes say.
struct Content {
  std::optional<FileFormat> format = {};
  // If no format that is read here matches: what the bytes look like ("an Avro file", "XML
  // or HTML"), and what to do with it. Empty: unknown.
  std::string what = {};
  std::string advice = {};
  bool is_text = false;  // printable, so that a name or the user may know better
};

// `first_bytes` are decompressed.
Content DetectContent(std::string_view first_bytes);
// By the first bytes, see ReadFirstBytes. An empty file has an empty Content.
Result<Content> DetectFile(const std::string& path);

// The end of an error message about the first record of a supposed TFRecord file, from the file's
// first (decompressed) bytes: "; the file looks like libsvm text: ...", with what to do instead.
// Empty where the bytes match no known format. Suits BlockOptions::describe_content.
std::string DescribeContent(std::string_view first_bytes);
// The same about the first line of the file `path`, which was read as `format`; empty if it has
// that format.
std::string DescribeFile(const std::string& path, std::string_view format);

}  // namespace millrace::io
