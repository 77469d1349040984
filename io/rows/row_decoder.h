// SPDX-License-Identifier: Apache-2.0
// Decodes the records of any input format into rows.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/status.h"
#include "io/batch/batch_builder.h"
#include "io/batch/csr_batch.h"
#include "io/example/example_encoder.h"
#include "io/features/feature_encoder.h"
#include "io/record/block_reader.h"
#include "io/text/csv_dialect.h"

namespace millrace::io {

// kTable: Parquet files and SQL queries, see io/table.
enum class InputFormat { kTfRecord, kLibsvm, kLibffm, kVw, kCriteo, kCsv, kJson, kTable };
const char* InputFormatName(InputFormat format);
// Accepts "tfrecord", "libsvm", "libffm", "vw", "criteo", "csv", "json", "table".
Result<InputFormat> InputFormatFromName(std::string_view name);
// By the content of the files; where that does not tell, by the name without compression
// extensions: .libsvm, .svm, .svmlight; .libffm, .ffm; .vw; .tsv (Criteo); .csv; .json, .jsonl,
// .ndjson; .parquet; TFRecord for all others. A query ("sql:SELECT ...") is a table. Standard input
// and pipes are not read: their name must tell. An error names what a file of another kind looks
// like (Avro, ORC, ...), or the first two files that differ (of the first 100).
Result<InputFormat> DetectInputFormat(const std::vector<std::string>& files);
// Whether the name has one of these extensions or .tfrecord, without compression extensions.
bool HasKnownExtension(std::string_view path);
Framing FramingOf(InputFormat format);
// Rows of named columns, which become keys only by a feature spec.
inline bool NeedsFeatureSpec(InputFormat format) {
  return format == InputFormat::kCsv || format == InputFormat::kJson ||
         format == InputFormat::kTable;
}
// Whether a feature spec can make keys of the rows.
inline bool HasColumns(InputFormat format) {
  return format == InputFormat::kTfRecord || format == InputFormat::kVw || NeedsFeatureSpec(format);
}
// The error about rows that need a spec and have none.
Status MissingFeatureSpec(InputFormat format);

// A number that is subtracted from the values of a feature, see centered_rows.h.
struct ValueCenter {
  uint64_t key = 0;
  float center = 0;
};

struct RowOptions {
  FeatureNames names = {};    // TFRecord
  bool check_names = true;    // see CheckNamedFeatures in io/stream/input_files.h
  uint64_t num_features = 0;  // keys must be below; 0: any 64-bit key but kInterceptKey
  UnknownKey unknown_key = UnknownKey::kError;
  // If set: a row with a key for which it returns false is an error, too. Thread-safe.
  std::function<bool(uint64_t key)> knows_key = nullptr;
  int index_base = 0;    // libsvm and libffm
  int hash_bits = 0;     // VW and Criteo: keys are hashes of that many bits; 0: 64
  bool hash_all = true;  // VW, see VwOptions
  Labels labels = Labels::kRequired;
  std::optional<float> positive_label = {};  // this label becomes 1 and every other one 0
  std::vector<ValueCenter> centers = {};     // by key
  // If set: rows have named fields, and this spec makes keys of them; num_features is the spec's.
  // Then names, index_base, hash_bits, hash_all and positive_label have no effect.
  std::shared_ptr<const EncoderPlan> features = nullptr;
  CsvDialect csv = {};                                  // of all files, with `features`
  std::shared_ptr<const TableOptions> table = nullptr;  // the same for tables
  std::string duckdb = {};  // the library that reads tables, see LoadDuckDb; empty: a usual place
  // Above 0: batches get `fields`, which are below it; see UseFields in io/queue/input_options.h.
  size_t num_fields = 0;
};

// Whether the batch's keys need 64 bits.
inline bool NeedsWideKeys(uint64_t num_features) {
  return num_features == 0 || num_features > (uint64_t{1} << 32);
}

// Not thread-safe: use one per thread.
class RowDecoder {
 public:
  virtual ~RowDecoder() = default;
  // Appends a row, or returns an error and leaves the rows unchanged. Up to kVarintReadSlack bytes
  // past the record may be read.
  virtual Status Append(std::string_view record, BatchBuilder& rows) = 0;
};

// Every row of a format that needs a feature spec is an error.
std::unique_ptr<RowDecoder> MakeRowDecoder(InputFormat format, const RowOptions& options);

}  // namespace millrace::io
