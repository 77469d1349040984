// SPDX-License-Identifier: Apache-2.0
#include "io/queue/input_options.h"

#include <algorithm>
#include <utility>

#include "io/record/byte_source.h"
#include "io/record/record_format.h"
#include "io/rows/column_reader.h"
#include "io/stream/input_files.h"
#include "io/table/table_reader.h"
#include "io/text/criteo.h"
#include "io/text/file_format.h"

namespace millrace::io {
namespace {

constexpr size_t kMaxThreads = 1024;
constexpr size_t kMaxShuffleCapacity = size_t{1} << 31;

// A model's header has the names, one per line.
Status CheckFeatureName(const char* option, const std::string& name) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; };
  if (std::none_of(name.begin(), name.end(), is_control)) return {};
  return Invalid(std::string(option) + ": expected a name without control characters, found '" +
                 name + "'");
}

Status CheckHasColumns(InputFormat format) {
  if (HasColumns(format)) return {};
  return Invalid(
      "a feature spec needs rows of named columns: expected tfrecord, csv, json, table or vw, "
      "found "
      "format=" +
      std::string(InputFormatName(format)));
}

}  // namespace

Status InputOptions::Validate() const {
  if (files.empty()) return Invalid("no input files");
  if (NeedsFeatureSpec(format) && !rows.features) return MissingFeatureSpec(format);
  if (rows.features) RETURN_IF_ERROR(CheckHasColumns(format));
  if (rows.num_fields > 0) {
    // A row gets entries for the centered features that it lacks, whose fields are not known.
    if (!rows.centers.empty()) return Invalid("centers: expected none for rows with fields");
    InputOptions same = *this;
    RETURN_IF_ERROR(UseFields(rows.num_fields, same));
  }
  if (batch_size == 0) return Invalid("batch_size: expected at least 1, found 0");
  if (batch_size > (size_t{1} << 24)) {
    return Invalid("batch_size: expected at most 16777216, found " + std::to_string(batch_size));
  }
  if (threads == 0) return Invalid("threads: expected at least 1, found 0");
  if (threads > kMaxThreads) {
    return Invalid("threads: expected at most " + std::to_string(kMaxThreads) + ", found " +
                   std::to_string(threads));
  }
  if (shuffle_capacity > kMaxShuffleCapacity) {
    return Invalid("shuffle_capacity: expected at most " + std::to_string(kMaxShuffleCapacity) +
                   ", found " + std::to_string(shuffle_capacity));
  }
  if (epochs == 0) return Invalid("epochs: expected at least 1, found 0");
  if (num_shards == 0 || shard >= num_shards) {
    return Invalid("shard: expected 0 to below num_shards = " + std::to_string(num_shards) +
                   ", found " + std::to_string(shard));
  }
  if (shuffle_capacity > 0 && min_after_dequeue >= shuffle_capacity) {
    return Invalid("min_after_dequeue: expected less than shuffle_capacity = " +
                   std::to_string(shuffle_capacity) + ", found " +
                   std::to_string(min_after_dequeue));
  }
  if (max_record_bytes < 1 || max_record_bytes > kMaxRecordBytes) {
    return Invalid("max_record_bytes: expected 1 to " + std::to_string(kMaxRecordBytes) +
                   ", found " + std::to_string(max_record_bytes));
  }
  if (streaming && shuffle_capacity > 0) {
    return Invalid("streaming keeps the order of the rows: expected shuffle_capacity = 0, found " +
                   std::to_string(shuffle_capacity));
  }
  if (!compact && NeedsWideKeys(rows.num_features)) {
    return Invalid("batches of 64-bit keys must be compact: num_features is " +
                   std::to_string(rows.num_features));
  }
  RETURN_IF_ERROR(CheckFeatureName("label_feature", rows.names.label));
  RETURN_IF_ERROR(CheckFeatureName("index_feature", rows.names.index));
  RETURN_IF_ERROR(CheckFeatureName("value_feature", rows.names.value));
  RETURN_IF_ERROR(CheckFeatureName("weight_feature", rows.names.weight));
  RETURN_IF_ERROR(CheckFeatureName("field_feature", rows.names.field));
  return epochs > 1 ? CheckReadableAgain(files, "epochs = 1") : Status();
}

namespace {

// Of the first file that is not empty.
Result<CsvDialect> FindDialect(const std::vector<std::string>& files,
                               const std::vector<std::string>& columns) {
  for (const std::string& file : files) {
    ASSIGN_OR_RETURN(const FirstBytes first, ReadFirstBytes(file));
    if (!first.bytes.empty()) return FindCsvDialectOfFile(file, {.columns = columns});
  }
  return CsvDialect{.columns = columns};
}

}  // namespace

Status UseColumns(const FeatureSpec& spec, InputOptions& input) {
  if (input.format == InputFormat::kCriteo) input.format = InputFormat::kCsv;
  RETURN_IF_ERROR(CheckHasColumns(input.format));
  if (input.format == InputFormat::kTable) {
    const std::vector<std::string> all;
    ASSIGN_OR_RETURN(input.rows.table,
                     FindTableColumns(input.rows.duckdb, input.files.front(),
                                      spec.fields.empty() ? all : spec.Columns()));
  }
  if (input.format != InputFormat::kCsv) return {};
  ASSIGN_OR_RETURN(input.rows.csv, FindDialect(input.files, spec.csv_columns));
  return {};
}

Status UseFeatures(std::shared_ptr<const EncoderPlan> features, InputOptions& input) {
  const FeatureSpec& spec = features->spec();
  input.rows.num_features = spec.num_features();
  input.rows.features = std::move(features);  // which keeps the spec
  return UseColumns(spec, input);
}

namespace {

// The number of fields that the rows have by themselves; 0: the user must know it.
Result<size_t> OwnFields(const InputOptions& input) {
  if (input.rows.features) return input.rows.features->spec().fields.size();
  if (input.format == InputFormat::kCriteo) return size_t{kCriteoFields};
  if (input.format == InputFormat::kTfRecord || input.format == InputFormat::kLibffm) return 0;
  return Invalid("this input has no fields: " + std::string(InputFormatName(input.format)) +
                 " text has keys alone; write it as libffm text (field:index:value), as TFRecords "
                 "with a list of fields, or as rows of named columns with a feature spec");
}

}  // namespace

Status UseFields(size_t num_fields, InputOptions& input) {
  ASSIGN_OR_RETURN(const size_t own, OwnFields(input));
  if (own == 0 && num_fields == 0) {
    return Invalid("num_fields: expected the number of fields of the " +
                   std::string(InputFormatName(input.format)) + " rows, found 0");
  }
  if (std::max(own, num_fields) > kMaxFields) {
    return Invalid("num_fields: expected at most " + std::to_string(kMaxFields) + ", found " +
                   std::to_string(std::max(own, num_fields)));
  }
  if (own > 0 && num_fields > 0 && own != num_fields) {
    return Invalid("num_fields: the rows have " + std::to_string(own) + " fields (" +
                   (input.rows.features ? "of the feature spec" : "the columns of Criteo text") +
                   "), found " + std::to_string(num_fields));
  }
  input.rows.num_fields = own > 0 ? own : num_fields;
  return {};
}

namespace {

// Of the feature spec; rows to score may lack the label, which is the first one.
std::vector<std::string> RequiredColumns(const RowOptions& rows) {
  const std::vector<std::string>& columns = rows.features->columns();
  return {columns.begin() + (rows.labels == Labels::kOptional ? 1 : 0), columns.end()};
}

}  // namespace

Status CheckNames(const InputOptions& options) {
  const RowOptions& rows = options.rows;
  if (!rows.features) {
    return options.format == InputFormat::kTfRecord ? CheckNamedFeatures(options.files, rows.names)
                                                    : Status();
  }
  const std::vector<std::string> columns = RequiredColumns(rows);
  if (options.format == InputFormat::kTable) {
    const Status found = CheckTableColumns(*rows.table, columns);
    return found.ok() ? found : Invalid(TableName(options.files.front()) + ": " + found.message());
  }
  if (options.format != InputFormat::kCsv) {
    const auto reader = MakeColumnReader(options.format, {.columns = columns});
    return CheckColumns(options.files, FramingOf(options.format), columns, *reader);
  }
  const Status found = CheckCsvColumns(rows.csv, columns);
  return found.ok() ? found : Invalid(options.files.front() + ": " + found.message());
}

StreamOptions InputOptions::Stream() const {
  StreamOptions stream;
  const size_t dealt = files.size() / num_shards * num_shards;
  for (size_t i = shard; i < dealt; i += num_shards) {
    stream.files.push_back(files[i]);
  }
  stream.whole_files = stream.files.size();
  stream.files.insert(stream.files.end(), files.begin() + static_cast<ptrdiff_t>(dealt),
                      files.end());
  stream.shard = shard;
  stream.num_shards = num_shards;
  stream.blocks.framing = FramingOf(format);
  stream.blocks.on_corrupt = on_corrupt;
  stream.blocks.block_bytes = block_bytes;
  stream.blocks.max_record_bytes = max_record_bytes;
  stream.blocks.streaming = streaming;
  stream.blocks.csv_delimiter = rows.csv.delimiter;
  stream.blocks.csv_header = rows.csv.header;
  stream.blocks.table = rows.table;
  stream.blocks.describe_content = DescribeContent;
  stream.seed = seed;
  stream.shuffle_files = shuffle_capacity > 0;
  // Keeping the files' order needs a single lane, which may prefetch more.
  stream.interleave = stream.shuffle_files ? interleave : 1;
  stream.prefetch_blocks = stream.shuffle_files ? 2 : 8;
  stream.first_epoch = start.epoch;
  stream.end_epoch = epochs;
  stream.cache_bytes = cache_bytes;
  return stream;
}

}  // namespace millrace::io
