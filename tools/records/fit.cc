// SPDX-License-Identifier: Apache-2.0
// millrace-records fit: the first pass over the data that a feature spec needs.

#include <gflags/gflags.h>

#include <cstdio>

#include "io/features/feature_fitter.h"
#include "io/rows/column_reader.h"
#include "io/stream/input_files.h"
#include "io/table/table_reader.h"
#include "tools/common/program.h"
#include "tools/common/remote_flags.h"
#include "tools/records/commands.h"
#include "tools/records/rows.h"

namespace millrace::records {
namespace {

using tools::Args;
using tools::CommandSpec;
using tools::File;
using tools::OneOf;

Status CheckColumnsOf(const io::InputOptions& input, const io::FeatureSpec& spec) {
  const std::vector<std::string> columns = spec.Columns();
  if (input.format == io::InputFormat::kCsv) return CheckCsvColumns(input.rows.csv, columns);
  if (input.format == io::InputFormat::kTable) return CheckTableColumns(*input.rows.table, columns);
  const auto reader = io::MakeColumnReader(input.format, {.columns = columns});
  return io::CheckColumns(input.files, io::FramingOf(input.format), columns, *reader);
}

Status Fit(const Args& args) {
  RETURN_IF_ERROR(tools::CheckEffects(FitSpec()));
  ASSIGN_OR_RETURN(const io::FeatureSpec spec, SpecFromFlags(/*may_be_open=*/true));
  RETURN_IF_ERROR(CheckSpecOut());
  RowReading reading = {.work = "counting"};
  ASSIGN_OR_RETURN(reading.input, RowInput(args));
  RETURN_IF_ERROR(io::UseColumns(spec, reading.input));
  RETURN_IF_ERROR(CheckColumnsOf(reading.input, spec));
  tools::CatchInterrupts();
  io::FeatureFitter fitter(spec);
  RETURN_IF_ERROR(ReadFieldRows(reading, spec.Columns(),
                                [&](const io::FieldRow& row) { return fitter.Add(row); }));
  ASSIGN_OR_RETURN(const io::FeatureSpec fitted, fitter.Finish());
  return WriteSpec(fitted);
}

}  // namespace

const CommandSpec& FitSpec() {
  static const CommandSpec spec = tools::WithRemoteFlags(
      {.name = "millrace-records fit",
       .job = "counts vocabularies, quantiles and scales of a feature spec in a pass over the data",
       .arguments = "FILE...",
       .groups = {{"Spec",
                   {"features", "out", "overwrite"},
                   {{"features", File()}, {"out", File()}}},
                  {"Work",
                   {"on_corrupt", "max_record_mb", "duckdb"},
                   {{"on_corrupt", OneOf({"fail", "skip"})}, {"duckdb", File()}}}},
       .always = {"features", "out", "on_corrupt", "max_record_mb", "duckdb"},
       .needs = {{{"overwrite"}, {"out"}}},
       .examples = {
           "millrace-records fit --features=spec.json --out=fitted.json 'data/day-1-*.csv.gz'",
           "millrace-records fit --features=fitted.json --out=fitted-2.json "
           "'data/day-2-*.csv.gz'"}});
  return spec;
}

int RunFit(const Args& args) {
  const Status done = Fit(args);
  return done.ok() ? 0 : Fail(done);
}

}  // namespace millrace::records
