// SPDX-License-Identifier: Apache-2.0
// millrace-records infer: writes a feature spec from a sample of the rows.

#include <gflags/gflags.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "io/rows/column_reader.h"
#include "io/table/table_reader.h"
#include "tools/common/program.h"
#include "tools/common/progress.h"
#include "tools/common/remote_flags.h"
#include "tools/common/text_table.h"
#include "tools/records/commands.h"
#include "tools/records/infer_spec.h"
#include "tools/records/rows.h"

DEFINE_string(label, "", "column of the label; empty: the one that looks like it");
DEFINE_uint64(sample, 100000, "number of rows to look at, from the begin of all files");

namespace millrace::records {
namespace {

using tools::Args;
using tools::CommandSpec;
using tools::File;
using tools::OneOf;

constexpr size_t kMaxColumns = 20000;         // as many fields as a spec may have
constexpr uint64_t kSampleBytes = 256 << 20;  // the sample is kept in memory

struct Sample {
  std::vector<std::string> records;
  std::vector<std::string> columns;
};

Status TooManyColumns() {
  return Invalid("expected rows with at most " + std::to_string(kMaxColumns) +
                 " columns, found more");
}

// A stream can be read only once.
Result<Sample> ReadSample(const RowReading& reading) {
  Sample sample;
  std::set<std::string> seen;
  SkippedRows skipped;
  sample.columns = reading.input.rows.csv.columns;
  if (reading.input.rows.table) sample.columns = reading.input.rows.table->columns;
  if (sample.columns.size() > kMaxColumns) return TooManyColumns();
  const auto add = [&](std::string_view record) -> Status {
    ASSIGN_OR_RETURN(const std::vector<std::string> names,
                     io::ColumnNamesOf(reading.input.format, record));
    for (const std::string& name : names) {
      if (seen.insert(name).second) sample.columns.push_back(name);
      if (sample.columns.size() > kMaxColumns) return TooManyColumns();
    }
    sample.records.emplace_back(record);
    return {};
  };
  RETURN_IF_ERROR(ReadRows(reading, add, skipped));
  PrintSkipped(skipped);
  return sample;
}

struct Summaries {
  std::vector<ColumnSummary> columns;
  uint64_t rows = 0;
};

Result<Summaries> Summarize(const RowReading& reading, const Sample& sample) {
  Summaries summaries;
  for (const std::string& column : sample.columns) summaries.columns.emplace_back(column);
  const auto reader =
      io::MakeColumnReader(reading.input.format, {.columns = sample.columns,
                                                  .csv = reading.input.rows.csv,
                                                  .table = reading.input.rows.table});
  io::FieldRow row;
  for (const std::string& record : sample.records) {
    const Result<bool> is_row = reader->Read(record, row);
    if (!is_row.ok() && reading.input.on_corrupt == io::OnCorrupt::kFail) {
      return Corrupt(reading.input.files.front() + ": " + is_row.status().message());
    }
    if (!is_row.ok() || !*is_row) continue;
    ++summaries.rows;
    for (size_t i = 0; i < sample.columns.size(); ++i) summaries.columns[i].Add(row.column(i));
  }
  return summaries;
}

void PrintColumns(const Summaries& summaries, const InferredSpec& inferred) {
  tools::TextTable table(
      {{"column"}, {"type"}, {"distinct", true}, {"missing", true}, {"becomes"}});
  for (size_t i = 0; i < summaries.columns.size(); ++i) {
    const ColumnSummary& column = summaries.columns[i];
    char missing[32];
    std::snprintf(missing, sizeof missing, "%.1f %%",
                  100 - 100 * static_cast<double>(column.rows()) /
                            static_cast<double>(std::max<uint64_t>(1, summaries.rows)));
    const char* type = column.is_integer() ? "integer" : (column.is_number() ? "number" : "text");
    table.Add({column.name(), type, tools::WithCommas(column.distinct()), missing,
               inferred.columns[i].use});
  }
  std::fprintf(stderr, "%s in the sample\n%s", tools::Counted(summaries.rows, "row").c_str(),
               table.Text().c_str());
}

Status Infer(const Args& args) {
  RETURN_IF_ERROR(tools::CheckEffects(InferSpec()));
  RETURN_IF_ERROR(CheckSpecOut());
  if (FLAGS_sample == 0) return Invalid("--sample=0: expected at least one row");
  RowReading reading = {.work = "reading"};
  ASSIGN_OR_RETURN(reading.input, RowInput(args));
  RETURN_IF_ERROR(io::UseColumns({}, reading.input));
  reading.rows_per_file = (FLAGS_sample - 1) / reading.input.files.size() + 1;
  reading.bytes_per_file = kSampleBytes / reading.input.files.size() + 1;
  tools::CatchInterrupts();
  ASSIGN_OR_RETURN(const Sample sample, ReadSample(reading));
  ASSIGN_OR_RETURN(const Summaries summaries, Summarize(reading, sample));
  ASSIGN_OR_RETURN(InferredSpec inferred,
                   reading.input.format == io::InputFormat::kVw
                       ? InferVwSpec(summaries.columns, FLAGS_label)
                       : InferFeatureSpec(summaries.columns, summaries.rows, FLAGS_label));
  const io::CsvDialect& csv = reading.input.rows.csv;
  if (reading.input.format == io::InputFormat::kCsv && !csv.has_header) {
    inferred.spec.csv_columns = csv.columns;
  }
  PrintColumns(summaries, inferred);
  return WriteSpec(inferred.spec);
}

}  // namespace

const CommandSpec& InferSpec() {
  static const CommandSpec spec = tools::WithRemoteFlags(
      {.name = "millrace-records infer",
       .job = "writes a feature spec for rows of named columns, from a sample of them",
       .arguments = "FILE...",
       .groups = {{"Spec", {"label", "out", "overwrite"}, {{"out", File()}}},
                  {"Work",
                   {"sample", "on_corrupt", "max_record_mb", "duckdb"},
                   {{"on_corrupt", OneOf({"fail", "skip"})}, {"duckdb", File()}}}},
       .always = {"label", "out", "sample", "on_corrupt", "max_record_mb", "duckdb"},
       .needs = {{{"overwrite"}, {"out"}}},
       .examples = {"millrace-records infer --out=spec.json 'data/day-1-*.csv.gz'",
                    "millrace-records infer --label=income adult.tfrecord > spec.json",
                    "millrace-records infer \"sql:SELECT * FROM 'day-*/*.parquet'\" > spec.json"}});
  return spec;
}

int RunInfer(const Args& args) {
  const Status done = Infer(args);
  return done.ok() ? 0 : Fail(done);
}

}  // namespace millrace::records
