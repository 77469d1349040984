// SPDX-License-Identifier: Apache-2.0
#include "tools/convert/format.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "io/record/idx_file.h"
#include "io/record/record_reader.h"
#include "io/text/file_format.h"

namespace millrace::convert {
namespace {

constexpr const char* kNames[] = {"libsvm", "vw", "criteo", "mnist", "images"};
constexpr char kHint[] = "; set --format=libsvm, vw, criteo, mnist or images";

Result<Format> DetectLine(const std::string& path, std::string_view line) {
  const Result<io::TextFormat> format = io::DetectTextFormat(line);
  if (format.ok()) return FormatFromName(io::TextFormatName(*format));
  return Invalid(path + ": cannot detect the format (as libsvm: " + format.status().message() +
                 ")" + kHint);
}

}  // namespace

const char* FormatName(Format format) { return kNames[static_cast<size_t>(format)]; }

Result<Format> FormatFromName(std::string_view name) {
  const auto found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found != std::end(kNames)) return static_cast<Format>(found - std::begin(kNames));
  return Invalid("--format=" + std::string(name) +
                 ": expected libsvm, vw, criteo, mnist, images or auto");
}

Result<Format> DetectFormat(const std::string& path) {
  if (path == "-") {
    return Invalid(std::string("the format of standard input cannot be detected") + kHint);
  }
  if (std::filesystem::is_directory(path)) return Format::kImages;
  if (std::filesystem::exists(path) && !std::filesystem::is_regular_file(path)) {
    return Invalid(path + ": the format of a pipe cannot be detected" + kHint);
  }
  ASSIGN_OR_RETURN(io::RecordReader lines,
                   io::RecordReader::Open(path, {.framing = io::Framing::kLines}));
  io::RecordView line;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, lines.Next(line));
    if (!more) return Invalid(path + ": cannot detect the format of an empty file" + kHint);
    if (line.offset == 0 && io::IsIdxHeader(line.bytes)) return Format::kMnist;
    if (!io::IsBlankLine(line.bytes)) return DetectLine(path, line.bytes);
  }
}

}  // namespace millrace::convert
