// SPDX-License-Identifier: Apache-2.0
#include "tools/records/rows.h"

#include <filesystem>

#include "io/record/output_file.h"
#include "io/rows/column_reader.h"
#include "tools/records/commands.h"

DEFINE_string(features, "", "feature spec (JSON); millrace-records infer writes one");
DEFINE_string(duckdb, "",
              "libduckdb.so, which reads Parquet and SQL; empty: a usual place, where "
              "tools/get_duckdb.sh puts it");

namespace millrace::records {
Result<io::InputOptions> RowInput(const tools::Args& args) {
  io::InputOptions input;
  ASSIGN_OR_RETURN(input.files, InputFiles(args));
  ASSIGN_OR_RETURN(input.on_corrupt, io::OnCorruptFromName(FLAGS_on_corrupt));
  ASSIGN_OR_RETURN(input.max_record_bytes, tools::MaxRecordBytes(FLAGS_max_record_mb));
  ASSIGN_OR_RETURN(input.format, io::DetectInputFormat(input.files));
  if (!FLAGS_duckdb.empty() && input.format != io::InputFormat::kTable) {
    return Invalid("--duckdb has no effect: it belongs to Parquet files and SQL queries, found " +
                   std::string(io::InputFormatName(input.format)));
  }
  input.rows.duckdb = FLAGS_duckdb;
  return input;
}

Status ReadFieldRows(const RowReading& reading, const std::vector<std::string>& columns,
                     const std::function<Status(const io::FieldRow&)>& use) {
  const auto reader = io::MakeColumnReader(
      reading.input.format,
      {.columns = columns, .csv = reading.input.rows.csv, .table = reading.input.rows.table});
  io::FieldRow row;
  SkippedRows skipped;
  const auto read = [&](std::string_view record) -> Status {
    ASSIGN_OR_RETURN(const bool is_row, reader->Read(record, row));
    return is_row ? use(row) : Status();
  };
  RETURN_IF_ERROR(ReadRows(reading, read, skipped));
  PrintSkipped(skipped);
  return {};
}

Result<io::FeatureSpec> SpecFromFlags(bool may_be_open) {
  if (FLAGS_features.empty()) return Invalid("--features is missing: expected a feature spec");
  ASSIGN_OR_RETURN(io::FeatureSpec spec, io::LoadFeatureSpec(FLAGS_features));
  if (may_be_open || spec.IsFitted()) return spec;
  return Invalid(FLAGS_features +
                 " needs a first pass over the data: millrace-records fit --features=" +
                 FLAGS_features + " --out=FITTED FILES");
}

Status CheckSpecOut() {
  if (FLAGS_out.empty() || FLAGS_overwrite || !std::filesystem::exists(FLAGS_out)) return {};
  return Invalid("--out=" + FLAGS_out + " exists: expected another name, or --overwrite");
}

Status WriteSpec(const io::FeatureSpec& spec) {
  ASSIGN_OR_RETURN(io::OutputFile out, io::OutputFile::Create(FLAGS_out.empty() ? "-" : FLAGS_out));
  RETURN_IF_ERROR(out.Write(spec.ToPrettyJson()));
  return out.Commit();
}

}  // namespace millrace::records
