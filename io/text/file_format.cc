// SPDX-License-Identifier: Apache-2.0
#include "io/text/file_format.h"

#include <algorithm>

#include "io/record/byte_source.h"
#include "io/record/idx_file.h"
#include "io/record/record_format.h"
#include "io/state/state_file.h"
#include "io/text/criteo.h"
#include "io/text/csv_dialect.h"
#include "io/text/libffm.h"
#include "io/text/libsvm.h"
#include "io/text/vw.h"

namespace millrace::io {
namespace {

using namespace std::string_view_literals;

constexpr char kOtherCompression[] = "only gzip, zlib and zstd are supported: decompress it first";
constexpr char kImage[] = "millrace-records convert makes TFRecords of a folder of class folders";
constexpr char kText[] = "text";
constexpr char kForeign[] =
    "write its rows as TFRecord, Parquet, CSV, JSON lines, libsvm, libffm or VW text";

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
    {"Obj\x01"sv, "an Avro file", kForeign},
    {"ORC"sv, "an ORC file", kForeign},
    {"ARROW1"sv, "an Arrow file", kForeign},
    {"FEA1"sv, "a Feather file", kForeign},
    {"SQLite format 3"sv, "an SQLite database", kForeign},
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

// Cuts the first line that is neither blank nor a comment from `text`; empty: none.
std::string_view TakeLine(std::string_view& text) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!IsBlankLine(line)) return line;
  }
  return {};
}

// One object per line. `is_cut`: the file's first bytes end in the line.
bool IsJsonLine(std::string_view line, bool is_cut) {
  const size_t begin = line.find_first_not_of(" \t\r"), last = line.find_last_not_of(" \t\r");
  return line[begin] == '{' && (line[last] == '}' || is_cut);
}

// Whether a line with '|' is rather one of a table than VW text: that has features.
bool IsVwWithoutFeatures(std::string_view line) {
  SparseRow row;
  return !ParseVwLine(line, {.labels = Labels::kOptional}, row).ok() || row.keys.empty();
}

Content UnknownText(std::string_view first, const Status& as_libsvm) {
  const char begin = first[first.find_first_not_of(" \t\r")];
  Content content = {.what = kText, .advice = kForeign, .is_text = true};
  if (begin == '{' || begin == '[') {
    content.what = "JSON that is not one object per line";
    content.advice = "write one object per line";
  } else if (begin == '<') {
    content.what = "XML or HTML";
  } else {
    content.advice = "as libsvm, " + as_libsvm.message();
  }
  return content;
}

Content TextContent(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  // The last line may be cut off in the middle of a number.
  const bool cut = text.size() >= kFirstBytes - kByteOrderMark.size();
  const std::string_view whole =
      cut ? text.substr(0, std::min(text.find_last_of(" \t\n"), text.size())) : text;
  std::string_view rest = whole;
  const std::string_view first = TakeLine(rest);
  if (first.empty()) return {.is_text = true};
  const Result<FileFormat> format = DetectTextFormat(first);
  const bool may_be_csv =
      !format.ok() || (*format == FileFormat::kVw && IsVwWithoutFeatures(first));
  if (!may_be_csv) return {.format = *format, .is_text = true};
  if (IsJsonLine(first, cut && rest.empty())) return {.format = FileFormat::kJson, .is_text = true};
  const char begin = first[first.find_first_not_of(" \t\r")];
  if (begin != '{' && begin != '[' && begin != '<' && LooksLikeCsv(text)) {
    return {.format = FileFormat::kCsv, .is_text = true};
  }
  if (format.ok()) return {.format = *format, .is_text = true};
  return UnknownText(first, format.status());
}

std::string DescribeFormat(FileFormat format) {
  if (format == FileFormat::kTfRecord) return Hint("TFRecords", "read it with format=tfrecord");
  if (format == FileFormat::kIdx) {
    return Hint("an IDX file (MNIST)",
                "millrace-convnet reads a pair with train=IMAGES,LABELS, and "
                "millrace-records convert IMAGES LABELS makes TFRecords of them");
  }
  if (format == FileFormat::kCsv) return Hint("CSV text", "read it with format=csv");
  if (format == FileFormat::kTable) return Hint("a Parquet file", "read it with format=table");
  if (format == FileFormat::kJson) return Hint("JSON lines", "read it with format=json");
  const std::string name = FileFormatName(format);
  return Hint(name + " text", "read it with format=" + name +
                                  ", or make TFRecords of it with millrace-records convert");
}

}  // namespace

const char* FileFormatName(FileFormat format) {
  constexpr const char* kNames[] = {"tfrecord", "libsvm", "libffm", "vw",   "criteo",
                                    "csv",      "json",   "idx",    "table"};
  return kNames[static_cast<size_t>(format)];
}

bool IsBlankLine(std::string_view line) {
  const size_t begin = line.find_first_not_of(" \t\r");
  return begin == line.npos || line[begin] == '#';
}

Result<FileFormat> DetectTextFormat(std::string_view line) {
  if (std::count(line.begin(), line.end(), '\t') == kCriteoFields) return FileFormat::kCriteo;
  SparseRow row;
  // First: the comment of a libsvm or libffm line may contain '|'.
  const Result<bool> libsvm = ParseLibsvmLine(line, {.labels = Labels::kOptional}, row);
  if (libsvm.ok()) return FileFormat::kLibsvm;
  if (ParseLibffmLine(line, {.labels = Labels::kOptional}, row).ok()) return FileFormat::kLibffm;
  if (line.find('|') != line.npos) return FileFormat::kVw;
  return libsvm.status();
}

Content DetectContent(std::string_view first_bytes) {
  first_bytes = first_bytes.substr(0, kFirstBytes);
  if (first_bytes.empty()) return {};
  // A valid header takes precedence over a signature that it contains by chance.
  if (first_bytes.size() >= kRecordHeaderBytes && HeaderIsValid(first_bytes.data())) {
    return {.format = FileFormat::kTfRecord};
  }
  for (const Signature& signature : kSignatures) {
    if (first_bytes.starts_with(signature.bytes)) {
      return {.what = signature.what, .advice = signature.advice};
    }
  }
  if (IsIdxHeader(first_bytes)) return {.format = FileFormat::kIdx};
  if (first_bytes.starts_with("PAR1")) return {.format = FileFormat::kTable};
  return IsText(first_bytes) ? TextContent(first_bytes) : Content{};
}

Result<Content> DetectFile(const std::string& path) {
  ASSIGN_OR_RETURN(const FirstBytes first, ReadFirstBytes(path));
  Content content = DetectContent(first.bytes);
  if (content.format == FileFormat::kTable && first.compression != Compression::kNone) {
    content = {.what = "a Parquet file", .advice = "decompress it first"};
  }
  if (!content.what.empty() && first.compression != Compression::kNone) {
    content.what = std::string(CompressionName(first.compression)) + " of " + content.what;
  }
  return content;
}

std::string DescribeContent(std::string_view first_bytes) {
  const Content content = DetectContent(first_bytes);
  if (content.format) return DescribeFormat(*content.format);
  return content.what.empty() ? "" : Hint(content.what, content.advice);
}

std::string DescribeFile(const std::string& path, std::string_view format) {
  if (!IsRegularInput(path)) return "";
  const Result<Content> content = DetectFile(path);
  if (!content.ok()) return "";
  if (!content->format) {
    return content->what.empty() || content->what == kText ? ""
                                                           : Hint(content->what, content->advice);
  }
  return FileFormatName(*content->format) == format ? "" : DescribeFormat(*content->format);
}

}  // namespace millrace::io
