#include "io/record/file_guess.h"

#include <algorithm>

#include "io/record/idx_file.h"
#include "io/state/state_file.h"
#include "io/text/text_format.h"

namespace millrace::io {
namespace {

using namespace std::string_view_literals;

constexpr char kOtherPacking[] = "gzip, zlib and zstd alone are undone: unpack it first";
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
    {"\x1f\x8b\x08"sv, "gzip data", "it was packed twice: unpack it once"},
    {"\x28\xb5\x2f\xfd"sv, "zstd data", "it was packed twice: unpack it once"},
    {"BZh"sv, "bzip2 data", kOtherPacking},
    {"\xfd\x37zXZ"sv, "xz data", kOtherPacking},
    {"\x04\x22\x4d\x18"sv, "lz4 data", kOtherPacking},
    {"PK\x03\x04"sv, "a zip file", kOtherPacking},
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

std::string TextGuess(std::string_view text) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (IsBlankLine(line)) continue;
    const Result<TextFormat> format = GuessTextFormat(line);
    if (!format.ok()) break;
    const std::string name = TextFormatName(*format);
    return Hint(name + " text", "read it with --format=" + name +
                                    " (millrace-lr, millrace-predict), or make TFRecords of it "
                                    "with millrace-records convert");
  }
  return Hint("text", "expected TFRecords, or with --format libsvm, VW or Criteo lines");
}

}  // namespace

std::string FileGuess(std::string_view first) {
  constexpr size_t kLooked = 64 << 10;
  first = first.substr(0, kLooked);
  for (const Signature& signature : kSignatures) {
    if (first.starts_with(signature.bytes)) return Hint(signature.what, signature.advice);
  }
  if (IsIdxHeader(first)) {
    return Hint("an IDX file (MNIST)",
                "millrace-convnet takes two of them, --train=IMAGES,LABELS, and "
                "millrace-records convert IMAGES LABELS makes TFRecords of them");
  }
  return first.size() > 0 && IsText(first) ? TextGuess(first) : "";
}

}  // namespace millrace::io
