// SPDX-License-Identifier: Apache-2.0
#include "io/text/file_format.h"

#include <algorithm>

#include "io/record/idx_file.h"
#include "io/state/state_file.h"
#include "io/text/criteo.h"
#include "io/text/libsvm.h"

namespace millrace::io {
namespace {

using namespace std::string_view_literals;

constexpr char kOtherCompression[] = "only gzip, zlib and zstd are supported: decompress it first";
constexpr char kImage[] = "millrace-records convert makes TFRecords of a folder of class folders";
constexpr char kForeign[] = "write it as TFRecord, or as libsvm or VW text";

struct Signature {
  std::string_view bytes;
  const char* what;
  const char* advice;
};
constexpr Signature kSignatures[] = {
    {{kStateMagic, kStateMagicBytes}, "a model or checkpoint of Millrace", "it holds no records"},
    {"\xff\xd8\xff"sv, "a JPEG image", kImage},
    {"\x89PNG"sv, "a PNG image", kImage},
    {"\x1f\x8b\x08"sv, "gzip data", "it was compressed twice: decompress it once"},
    {"\x28\xb5\x2f\xfd"sv, "zstd data", "it was compressed twice: decompress it once"},
    {"BZh"sv, "bzip2 data", kOtherCompression},
    {"\xfd\x37zXZ"sv, "xz data", kOtherCompression},
    {"\x04\x22\x4d\x18"sv, "lz4 data", kOtherCompression},
    {"PK\x03\x04"sv, "a zip file", kOtherCompression},
    {"PAR1"sv, "a Parquet file", kForeign},
    {"Obj\x01"sv, "an Avro file", kForeign},
    {"\x89HDF"sv, "an HDF5 file", kForeign},
    {"\x93NUMPY"sv, "a NumPy file", kForeign},
};

std::string Hint(const std::string& what, const std::string& advice) {
  return "; the file looks like " + what + ": " + advice;
}

bool IsText(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= ' ' || (byte >= '\t' && byte <= '\r');
  });
}

std::string DescribeText(std::string_view text) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (IsBlankLine(line)) continue;
    const Result<TextFormat> format = DetectTextFormat(line);
    if (!format.ok()) break;
    const std::string name = TextFormatName(*format);
    return Hint(name + " text", "read it with format=" + name +
                                    ", or make TFRecords of it with millrace-records convert");
  }
  return Hint("text", "expected TFRecords, or libsvm, VW or Criteo lines with the option format");
}

}  // namespace

const char* TextFormatName(TextFormat format) {
  constexpr const char* kNames[] = {"libsvm", "vw", "criteo"};
  return kNames[static_cast<size_t>(format)];
}

bool IsBlankLine(std::string_view line) {
  const size_t begin = line.find_first_not_of(" \t\r");
  return begin == line.npos || line[begin] == '#';
}

Result<TextFormat> DetectTextFormat(std::string_view line) {
  if (std::count(line.begin(), line.end(), '\t') == kCriteoFields) return TextFormat::kCriteo;
  if (line.find('|') != line.npos) return TextFormat::kVw;
  SparseRow row;
  ASSIGN_OR_RETURN([[maybe_unused]] const bool is_row, ParseLibsvmLine(line, {}, row));
  return TextFormat::kLibsvm;
}

std::string DescribeContent(std::string_view first_bytes) {
  constexpr size_t kMaxBytes = 64 << 10;
  first_bytes = first_bytes.substr(0, kMaxBytes);
  for (const Signature& signature : kSignatures) {
    if (first_bytes.starts_with(signature.bytes)) return Hint(signature.what, signature.advice);
  }
  if (IsIdxHeader(first_bytes)) {
    return Hint("an IDX file (MNIST)",
                "millrace-convnet reads a pair with train=IMAGES,LABELS, and "
                "millrace-records convert IMAGES LABELS makes TFRecords of them");
  }
  return first_bytes.size() > 0 && IsText(first_bytes) ? DescribeText(first_bytes) : "";
}

}  // namespace millrace::io
