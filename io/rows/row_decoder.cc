// SPDX-License-Identifier: Apache-2.0
#include "io/rows/row_decoder.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <utility>

#include "io/example/example_decoder.h"
#include "io/rows/centered_rows.h"
#include "io/text/criteo.h"
#include "io/text/libsvm.h"
#include "io/text/vw.h"

namespace millrace::io {
namespace {

constexpr std::array kFormats = {InputFormat::kTfRecord, InputFormat::kLibsvm, InputFormat::kVw,
                                 InputFormat::kCriteo};

std::string_view WithoutCompression(std::string_view path) {
  for (const std::string_view ending : {".gz", ".zst", ".zz", ".zlib"}) {
    if (path.ends_with(ending)) path.remove_suffix(ending.size());
  }
  return path;
}

InputFormat FormatOf(std::string_view path) {
  path = WithoutCompression(path);
  for (const std::string_view ending : {".libsvm", ".svm", ".svmlight"}) {
    if (path.ends_with(ending)) return InputFormat::kLibsvm;
  }
  if (path.ends_with(".vw")) return InputFormat::kVw;
  if (path.ends_with(".tsv")) return InputFormat::kCriteo;
  return InputFormat::kTfRecord;
}

class TfRecordRows final : public RowDecoder {
 public:
  explicit TfRecordRows(const RowOptions& options)
      : decoder_({.names = options.names,
                  .num_features = options.num_features,
                  .labels = options.labels}) {}
  Status Append(std::string_view record, BatchBuilder& rows) override {
    return decoder_.Append(record, rows);
  }

 private:
  ExampleDecoder decoder_;
};

// A key below 2^32 is probably a number that was used as it is, not a 64-bit hash of a name.
std::string HashAdvice(const RowOptions& options, uint64_t key) {
  if (options.hash_bits > 32) return "; hash_bits above 32 need num_features=0";
  if (options.hash_bits > 0) {
    return "; hash_bits=" + std::to_string(options.hash_bits) +
           " needs num_features=" + std::to_string(uint64_t{1} << options.hash_bits);
  }
  if (options.num_features == 1 || key >> 32 == 0) {
    return TooFewFeatures(key);
  }
  const std::string bits = std::to_string(std::bit_width(options.num_features) - 1);
  return "; it is the hash of a name: hash_bits=" + bits + " keeps hashes below 2^" + bits;
}

// Base of the text formats: parses a line into a SparseRow, checks it and copies it.
class TextRows : public RowDecoder {
 public:
  explicit TextRows(const RowOptions& options) : options_(options) {}

  Status Append(std::string_view record, BatchBuilder& rows) final {
    ASSIGN_OR_RETURN(const bool is_row, Parse(record, row_));
    if (!is_row) return {};
    if (row_.label != 0 && row_.label != 1 && row_.label != -1 && !std::isnan(row_.label)) {
      return BadLabel();
    }
    for (const uint64_t key : row_.keys) {
      if (options_.num_features > 0 && key >= options_.num_features) return BadKey(key);
      if (key == kInterceptKey) return Corrupt(std::string("index: ") + kReservedKeyText);
    }
    bool ones = true;
    for (const float value : row_.values) ones &= value == 1.0f;
    // NaN is kNoLabel and stays.
    rows.AddRow(row_.label == -1 ? 0.0f : row_.label, row_.weight, row_.keys,
                ones ? nullptr : row_.values.data());
    return {};
  }

 protected:
  virtual Result<bool> Parse(std::string_view line, SparseRow& row) = 0;
  // The end of the message about a key that is too large.
  virtual std::string Advice(uint64_t key) const { return TooFewFeatures(key); }
  RowOptions options_;

 private:
  Status BadLabel() const {
    char text[32];
    std::snprintf(text, sizeof text, "%g", row_.label);
    return Corrupt(
        std::string("label: expected 0, 1 or -1, found ") + text +
        " (the option positive_label of millrace-records convert makes two classes of many)");
  }
  Status BadKey(uint64_t key) const {
    return Corrupt(
        "index: expected 0 to below num_features = " + std::to_string(options_.num_features) +
        ", found " + std::to_string(key) + Advice(key));
  }

  SparseRow row_;
};

class LibsvmRows final : public TextRows {
 public:
  using TextRows::TextRows;

 private:
  Result<bool> Parse(std::string_view line, SparseRow& row) override {
    return ParseLibsvmLine(line, {.index_base = options_.index_base, .labels = options_.labels},
                           row);
  }
};

class VwRows final : public TextRows {
 public:
  explicit VwRows(const RowOptions& options)
      : TextRows(options),
        vw_({.hash_bits = options.hash_bits,
             .hash_all = options.hash_all,
             .labels = options.labels}) {}

 private:
  Result<bool> Parse(std::string_view line, SparseRow& row) override {
    return ParseVwLine(line, vw_, row);
  }
  std::string Advice(uint64_t key) const override { return HashAdvice(options_, key); }
  VwOptions vw_;
};

class CriteoRows final : public TextRows {
 public:
  explicit CriteoRows(const RowOptions& options) : TextRows(options), hasher_(options.hash_bits) {}

 private:
  Result<bool> Parse(std::string_view line, SparseRow& row) override {
    ASSIGN_OR_RETURN(const bool is_row, SplitCriteoLine(line, line_, options_.labels));
    if (is_row) hasher_.Encode(line_, row);
    return is_row;
  }
  std::string Advice(uint64_t key) const override { return HashAdvice(options_, key); }
  CriteoHasher hasher_;
  CriteoLine line_;
};

std::unique_ptr<RowDecoder> MakeFormatDecoder(InputFormat format, const RowOptions& options) {
  switch (format) {
    case InputFormat::kTfRecord:
      return std::make_unique<TfRecordRows>(options);
    case InputFormat::kLibsvm:
      return std::make_unique<LibsvmRows>(options);
    case InputFormat::kVw:
      return std::make_unique<VwRows>(options);
    case InputFormat::kCriteo:
      return std::make_unique<CriteoRows>(options);
  }
  return nullptr;
}

}  // namespace

const char* InputFormatName(InputFormat format) {
  switch (format) {
    case InputFormat::kTfRecord:
      return "tfrecord";
    case InputFormat::kLibsvm:
      return "libsvm";
    case InputFormat::kVw:
      return "vw";
    case InputFormat::kCriteo:
      return "criteo";
  }
  return "unknown";
}

Result<InputFormat> InputFormatFromName(std::string_view name) {
  for (const InputFormat format : kFormats) {
    if (name == InputFormatName(format)) return format;
  }
  return Invalid("format: expected tfrecord, libsvm, vw or criteo, found '" + std::string(name) +
                 "'");
}

Result<InputFormat> InputFormatFromExtensions(const std::vector<std::string>& files) {
  if (files.empty()) return Invalid("no input files");
  const InputFormat format = FormatOf(files.front());
  for (const std::string& file : files) {
    if (FormatOf(file) == format) continue;
    return Invalid("files of different formats: " + files.front() + " looks like " +
                   InputFormatName(format) + ", " + file + " like " +
                   InputFormatName(FormatOf(file)) + "; name the format");
  }
  return format;
}

bool HasKnownExtension(std::string_view path) {
  return FormatOf(path) != InputFormat::kTfRecord ||
         WithoutCompression(path).ends_with(".tfrecord");
}

Framing FramingOf(InputFormat format) {
  return format == InputFormat::kTfRecord ? Framing::kTfRecord : Framing::kLines;
}

std::unique_ptr<RowDecoder> MakeRowDecoder(InputFormat format, const RowOptions& options) {
  auto decoder = MakeFormatDecoder(format, options);
  if (options.centers.empty()) return decoder;
  return CenterRows(std::move(decoder), options.centers);
}

}  // namespace millrace::io
