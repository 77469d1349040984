// SPDX-License-Identifier: Apache-2.0
#include "io/rows/row_decoder.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <optional>
#include <utility>

#include "io/example/example_decoder.h"
#include "io/rows/centered_rows.h"
#include "io/rows/column_reader.h"
#include "io/table/table_query.h"
#include "io/text/criteo.h"
#include "io/text/file_format.h"
#include "io/text/libffm.h"
#include "io/text/libsvm.h"
#include "io/text/vw.h"

namespace millrace::io {
namespace {

constexpr std::array kFormats = {InputFormat::kTfRecord, InputFormat::kLibsvm, InputFormat::kLibffm,
                                 InputFormat::kVw,       InputFormat::kCriteo, InputFormat::kCsv,
                                 InputFormat::kJson,     InputFormat::kTable};

std::string_view WithoutCompression(std::string_view path) {
  for (const std::string_view ending : {".gz", ".zst", ".zz", ".zlib"}) {
    if (path.ends_with(ending)) path.remove_suffix(ending.size());
  }
  return path;
}

InputFormat FormatOfName(std::string_view path) {
  if (IsQuery(path)) return InputFormat::kTable;
  path = WithoutCompression(path);
  for (const std::string_view ending : {".libsvm", ".svm", ".svmlight"}) {
    if (path.ends_with(ending)) return InputFormat::kLibsvm;
  }
  if (path.ends_with(".libffm") || path.ends_with(".ffm")) return InputFormat::kLibffm;
  if (path.ends_with(".vw")) return InputFormat::kVw;
  if (path.ends_with(".tsv")) return InputFormat::kCriteo;
  if (path.ends_with(".csv")) return InputFormat::kCsv;
  for (const std::string_view ending : {".json", ".jsonl", ".ndjson"}) {
    if (path.ends_with(ending)) return InputFormat::kJson;
  }
  if (path.ends_with(".parquet")) return InputFormat::kTable;
  return InputFormat::kTfRecord;
}

class TfRecordRows final : public RowDecoder {
 public:
  explicit TfRecordRows(const RowOptions& options)
      : decoder_({.names = options.names,
                  .num_features = options.num_features,
                  .unknown_key = options.unknown_key,
                  .labels = options.labels,
                  .num_fields = options.num_fields,
                  .positive_label = options.positive_label}) {}
  Status Append(std::string_view record, BatchBuilder& rows) override {
    return decoder_.Append(record, rows);
  }

 private:
  ExampleDecoder decoder_;
};

// A 64-bit key below 2^32 is probably a number that was used as it is, not the hash of a name.
std::string HashAdvice(const RowOptions& options, uint64_t key) {
  const int given = options.hash_bits;
  if (given > 0 && given < 64) {
    return "; hash_bits=" + std::to_string(given) + " makes keys below 2^" + std::to_string(given) +
           ": raise num_features to " + std::to_string(uint64_t{1} << given);
  }
  if (options.num_features == 1 || key >> 32 == 0) return TooFewFeatures(key);
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
    if (options_.positive_label && !std::isnan(row_.label)) {
      row_.label = row_.label == *options_.positive_label;
    }
    if (row_.label != 0 && row_.label != 1 && row_.label != -1 && !std::isnan(row_.label)) {
      return BadLabel();
    }
    if (options_.num_fields > 0) RETURN_IF_ERROR(CheckFields());
    RETURN_IF_ERROR(CheckKeys(rows));
    bool ones = true;
    for (const float value : row_.values) ones &= value == 1.0f;
    // NaN is kNoLabel and stays.
    rows.AddRow(row_.label == -1 ? 0.0f : row_.label, row_.weight, row_.keys,
                ones ? nullptr : row_.values.data(), Fields());
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
    return Corrupt(std::string("label: expected 0, 1 or -1, found ") + text +
                   " (the option positive_label makes two classes of many)");
  }
  uint16_t* Fields() { return options_.num_fields > 0 ? row_.fields.data() : nullptr; }
  Status CheckFields() const {
    if (row_.fields.size() != row_.keys.size()) return Corrupt("this row has no fields");
    for (const uint16_t field : row_.fields) {
      if (field < options_.num_fields) continue;
      return Corrupt("field: " + FieldRange(options_.num_fields) + std::to_string(field));
    }
    return {};
  }
  Status CheckKeys(BatchBuilder& rows) {
    if (options_.num_features > 0 && options_.unknown_key == UnknownKey::kLeaveOut) {
      const size_t kept =
          rows.LeaveOutUnknown(options_.num_features, row_.keys, row_.values.data(), Fields());
      row_.keys.resize(kept);
      row_.values.resize(kept);
    }
    for (const uint64_t key : row_.keys) {
      if (options_.num_features > 0 && key >= options_.num_features) return BadKey(key);
      if (key == kInterceptKey) return Corrupt(std::string("index: ") + kReservedKeyText);
    }
    return {};
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

class LibffmRows final : public TextRows {
 public:
  using TextRows::TextRows;

 private:
  Result<bool> Parse(std::string_view line, SparseRow& row) override {
    return ParseLibffmLine(line, {.index_base = options_.index_base, .labels = options_.labels},
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

// One key for each field, in the order of the fields.
void AddFieldsInOrder(SparseRow& row) {
  row.fields.resize(row.keys.size());
  std::iota(row.fields.begin(), row.fields.end(), uint16_t{0});
}

class CriteoRows final : public TextRows {
 public:
  explicit CriteoRows(const RowOptions& options) : TextRows(options), hasher_(options.hash_bits) {}

 private:
  Result<bool> Parse(std::string_view line, SparseRow& row) override {
    ASSIGN_OR_RETURN(const bool is_row, SplitCriteoLine(line, line_, options_.labels));
    if (!is_row) return false;
    hasher_.Encode(line_, row);
    if (options_.num_fields > 0) AddFieldsInOrder(row);
    return true;
  }
  std::string Advice(uint64_t key) const override { return HashAdvice(options_, key); }
  CriteoHasher hasher_;
  CriteoLine line_;
};

// Rows of named fields, through a feature spec.
class SpecRows final : public RowDecoder {
 public:
  SpecRows(std::unique_ptr<ColumnReader> columns, const RowOptions& options)
      : columns_(std::move(columns)),
        encoder_(options.features, options.labels, options.num_fields > 0) {}

  Status Append(std::string_view record, BatchBuilder& rows) override {
    ASSIGN_OR_RETURN(const bool is_row, columns_->Read(record, row_));
    return is_row ? encoder_.Append(row_, rows) : Status();
  }

 private:
  std::unique_ptr<ColumnReader> columns_;
  FeatureEncoder encoder_;
  FieldRow row_;
};

class RowsWithoutSpec final : public RowDecoder {
 public:
  explicit RowsWithoutSpec(InputFormat format) : format_(format) {}
  Status Append(std::string_view, BatchBuilder&) override { return MissingFeatureSpec(format_); }

 private:
  InputFormat format_;
};

// Rows of keys that the model knows.
class KnownRows final : public RowDecoder {
 public:
  KnownRows(std::unique_ptr<RowDecoder> decoder, std::function<bool(uint64_t key)> knows_key)
      : decoder_(std::move(decoder)), knows_key_(std::move(knows_key)) {}

  Status Append(std::string_view record, BatchBuilder& rows) override {
    const size_t begin = rows.nnz(), before = rows.batch.rows();
    RETURN_IF_ERROR(decoder_->Append(record, rows));
    for (size_t i = begin; i < rows.nnz(); ++i) {
      const uint64_t key = rows.wide ? rows.wide_keys[i] : rows.batch.cols[i];
      if (knows_key_(key)) continue;
      if (rows.batch.rows() > before) rows.DropRow();
      return Corrupt("key " + std::to_string(key) + ": expected a weight in the model, found none");
    }
    return {};
  }

 private:
  std::unique_ptr<RowDecoder> decoder_;
  std::function<bool(uint64_t key)> knows_key_;
};

std::unique_ptr<RowDecoder> MakeFormatDecoder(InputFormat format, const RowOptions& options) {
  if (options.features) {
    return std::make_unique<SpecRows>(
        MakeColumnReader(
            format,
            {.columns = options.features->columns(), .csv = options.csv, .table = options.table}),
        options);
  }
  switch (format) {
    case InputFormat::kTfRecord:
      return std::make_unique<TfRecordRows>(options);
    case InputFormat::kLibsvm:
      return std::make_unique<LibsvmRows>(options);
    case InputFormat::kLibffm:
      return std::make_unique<LibffmRows>(options);
    case InputFormat::kVw:
      return std::make_unique<VwRows>(options);
    case InputFormat::kCriteo:
      return std::make_unique<CriteoRows>(options);
    case InputFormat::kCsv:
    case InputFormat::kJson:
    case InputFormat::kTable:
      return std::make_unique<RowsWithoutSpec>(format);
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
    case InputFormat::kLibffm:
      return "libffm";
    case InputFormat::kVw:
      return "vw";
    case InputFormat::kCriteo:
      return "criteo";
    case InputFormat::kCsv:
      return "csv";
    case InputFormat::kJson:
      return "json";
    case InputFormat::kTable:
      return "table";
  }
  return "unknown";
}

Result<InputFormat> InputFormatFromName(std::string_view name) {
  for (const InputFormat format : kFormats) {
    if (name == InputFormatName(format)) return format;
  }
  return Invalid(
      "format: expected tfrecord, libsvm, libffm, vw, criteo, csv, json or table, found '" +
      std::string(name) + "'");
}

namespace {

// None for an empty file. The reader reports files that cannot be read.
Result<std::optional<InputFormat>> FormatOf(const std::string& file) {
  if (IsQuery(file)) return std::optional(InputFormat::kTable);
  const bool is_named = HasKnownExtension(file);
  const Result<Content> content = DetectFile(file);
  if (!content.ok()) return std::optional(FormatOfName(file));
  if (content->format == FileFormat::kIdx) {
    return Invalid(file + ": expected rows" + DescribeFile(file, ""));
  }
  if (content->format) {
    ASSIGN_OR_RETURN(const InputFormat format,
                     InputFormatFromName(FileFormatName(*content->format)));
    // Lines with as many commas may be libsvm or VW text whose first line is wrong.
    const InputFormat by_name = FormatOfName(file);
    // The first row of libffm text may have no features: then it is libsvm text, too.
    const bool is_weak = (format == InputFormat::kCsv &&
                          (by_name == InputFormat::kLibsvm || by_name == InputFormat::kLibffm ||
                           by_name == InputFormat::kVw)) ||
                         (format == InputFormat::kLibsvm && by_name == InputFormat::kLibffm);
    return std::optional(is_weak ? by_name : format);
  }
  const bool is_foreign = !content->what.empty() && !(content->is_text && is_named);
  if (is_foreign) {
    return Invalid(
        (file == "-" ? "standard input" : file) +
        ": expected TFRecords, Parquet, CSV, JSON lines, or lines of libsvm, libffm, VW or "
        "Criteo text, found " +
        content->what + ": " + content->advice);
  }
  return is_named || !content->is_text ? std::optional(FormatOfName(file)) : std::nullopt;
}

}  // namespace

Result<InputFormat> DetectInputFormat(const std::vector<std::string>& files) {
  constexpr size_t kMaxFiles = 100;
  if (files.empty()) return Invalid("no input files");
  std::optional<InputFormat> format;
  std::string first;
  for (size_t i = 0; i < std::min(files.size(), kMaxFiles); ++i) {
    ASSIGN_OR_RETURN(const std::optional<InputFormat> found, FormatOf(files[i]));
    if (!found) continue;
    if (!format) {
      format = found;
      first = files[i];
    } else if (*found != *format) {
      return Invalid("files of different formats: " + first + " looks like " +
                     InputFormatName(*format) + ", " + files[i] + " like " +
                     InputFormatName(*found) + "; name the format");
    }
  }
  return format.value_or(FormatOfName(files.front()));
}

bool HasKnownExtension(std::string_view path) {
  return FormatOfName(path) != InputFormat::kTfRecord ||
         WithoutCompression(path).ends_with(".tfrecord");
}

Framing FramingOf(InputFormat format) {
  if (format == InputFormat::kTfRecord) return Framing::kTfRecord;
  if (format == InputFormat::kTable) return Framing::kTable;
  return format == InputFormat::kCsv ? Framing::kCsv : Framing::kLines;
}

Status MissingFeatureSpec(InputFormat format) {
  const char* const what = format == InputFormat::kCsv    ? "CSV"
                           : format == InputFormat::kJson ? "JSON"
                                                          : "table";
  return Invalid(std::string(what) +
                 " rows need a feature spec: millrace-records infer FILES writes one; pass it as "
                 "features");
}

std::unique_ptr<RowDecoder> MakeRowDecoder(InputFormat format, const RowOptions& options) {
  std::unique_ptr<RowDecoder> decoder = MakeFormatDecoder(format, options);
  if (options.knows_key) {
    decoder = std::make_unique<KnownRows>(std::move(decoder), options.knows_key);
  }
  if (options.centers.empty()) return decoder;
  return CenterRows(std::move(decoder), options.centers);
}

}  // namespace millrace::io
