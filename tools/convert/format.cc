// SPDX-License-Identifier: Apache-2.0
#include "tools/convert/format.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>

#include "io/rows/row_decoder.h"
#include "io/table/table_query.h"
#include "io/text/file_format.h"

namespace millrace::convert {
namespace {

constexpr const char* kNames[] = {"libsvm", "libffm",   "vw",  "criteo", "mnist",
                                  "images", "tfrecord", "csv", "json",   "table"};
constexpr char kHint[] = "; set --format=libsvm, libffm, vw, criteo, mnist or images";

// Of lines that do not tell: as io::DetectInputFormat, which the other programs use.
std::optional<Format> FromName(const std::string& path) {
  if (!io::HasKnownExtension(path)) return std::nullopt;
  const Result<io::InputFormat> format = io::DetectInputFormat({path});
  if (!format.ok()) return std::nullopt;
  if (*format == io::InputFormat::kLibsvm) return Format::kLibsvm;
  if (*format == io::InputFormat::kLibffm) return Format::kLibffm;
  if (*format == io::InputFormat::kVw) return Format::kVw;
  if (*format == io::InputFormat::kCriteo) return Format::kCriteo;
  return std::nullopt;
}

// Unlike FormatFromName, not about a flag.
Result<Format> FromContent(const std::string& path, const io::Content& content) {
  const std::string expected = path +
                               ": expected lines of libsvm, libffm, VW or Criteo text, IDX files "
                               "or a folder of images, found ";
  if (!content.format) {
    const std::optional<Format> by_name = content.is_text ? FromName(path) : std::nullopt;
    if (by_name) return *by_name;
    if (content.what.empty() && !content.is_text) return Invalid(expected + "unknown data" + kHint);
    if (content.what.empty()) return Invalid(expected + "no rows" + kHint);
    return Invalid(expected + content.what + ": " + content.advice +
                   (content.is_text ? kHint : ""));
  }
  switch (*content.format) {
    case io::FileFormat::kTfRecord:
      return Invalid(expected + "TFRecords, which need no conversion");
    case io::FileFormat::kLibsvm:
      return Format::kLibsvm;
    case io::FileFormat::kLibffm:
      return Format::kLibffm;
    case io::FileFormat::kVw:
      return Format::kVw;
    case io::FileFormat::kCriteo:
      return Format::kCriteo;
    case io::FileFormat::kCsv:
      return Invalid(expected + "CSV text: its rows need a feature spec (--features)" + kHint);
    case io::FileFormat::kJson:
      return Invalid(expected + "JSON lines: their rows need a feature spec (--features)" + kHint);
    case io::FileFormat::kTable:
      return Invalid(expected + "a Parquet file: its rows need a feature spec (--features)" +
                     kHint);
    case io::FileFormat::kIdx:
      return Format::kMnist;
  }
  return Format::kLibsvm;
}

}  // namespace

const char* FormatName(Format format) { return kNames[static_cast<size_t>(format)]; }

Result<Format> FormatFromName(std::string_view name) {
  const auto found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found != std::end(kNames)) return static_cast<Format>(found - std::begin(kNames));
  return Invalid(
      "--format=" + std::string(name) +
      ": expected libsvm, libffm, vw, criteo, mnist, images, tfrecord, csv, json, table or auto");
}

Result<Format> DetectFormat(const std::string& path) {
  if (io::IsQuery(path)) return Format::kTable;
  if (std::filesystem::is_directory(path)) return Format::kImages;
  ASSIGN_OR_RETURN(const io::Content content, io::DetectFile(path));
  return FromContent(path, content);
}

}  // namespace millrace::convert
