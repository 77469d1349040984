// SPDX-License-Identifier: Apache-2.0
#include "tools/records/rows.h"

#include <filesystem>

#include "io/base/printable.h"
#include "io/record/output_file.h"
#include "io/record/record_reader.h"
#include "io/stream/block_pool.h"
#include "io/text/file_format.h"
#include "tools/common/program.h"
#include "tools/common/progress.h"
#include "tools/records/commands.h"

DEFINE_string(features, "", "feature spec (JSON); millrace-records infer writes one");

namespace millrace::records {
namespace {

constexpr uint64_t kProgressRows = 4096;

class RowReader {
 public:
  RowReader(const RowReading& reading, const std::function<Status(std::string_view)>& use,
            SkippedRows& skipped)
      : reading_(reading),
        use_(use),
        skipped_(skipped),
        blocks_(reading.input.Stream().blocks),
        progress_({.work = reading.work, .unit = "rows"}) {}

  Status ReadFile(const std::string& file) {
    ASSIGN_OR_RETURN(io::RecordReader records, io::RecordReader::Open(file, blocks_));
    io::RecordView record;
    for (uint64_t rows = 0; reading_.rows_per_file == 0 || rows < reading_.rows_per_file; ++rows) {
      ASSIGN_OR_RETURN(const bool more, records.Next(record));
      if (!more) break;
      const Status used = use_(record.bytes);
      if (!used.ok()) RETURN_IF_ERROR(Skip(Located(file, record.offset, used)));
      if (++rows_ % kProgressRows != 0) continue;
      if (tools::Interrupted()) return Cancelled("interrupted: nothing was written");
      progress_.Add(kProgressRows);
    }
    const io::CorruptionStats& corruption = records.corruption();
    return corruption.events == 0 ? Status() : Skip(Corrupt(corruption.first));
  }

 private:
  Status Located(const std::string& file, uint64_t offset, const Status& problem) const {
    const io::RecordOrigin origin = {.path = &file, .offset = offset};
    return {problem.code(), io::LocationText(origin, blocks_.framing) + problem.message()};
  }
  Status Skip(const Status& problem) {
    if (reading_.input.on_corrupt == io::OnCorrupt::kFail || problem.code() != Code::kCorrupt) {
      return problem;
    }
    if (skipped_.rows++ == 0) skipped_.first = problem.message();
    return {};
  }

  const RowReading& reading_;
  const std::function<Status(std::string_view)>& use_;
  SkippedRows& skipped_;
  io::BlockOptions blocks_;
  tools::Progress progress_;
  uint64_t rows_ = 0;
};

}  // namespace

Result<io::InputOptions> RowInput(const tools::Args& args) {
  io::InputOptions input;
  ASSIGN_OR_RETURN(input.files, InputFiles(args));
  ASSIGN_OR_RETURN(input.on_corrupt, io::OnCorruptFromName(FLAGS_on_corrupt));
  ASSIGN_OR_RETURN(input.max_record_bytes, tools::MaxRecordBytes(FLAGS_max_record_mb));
  ASSIGN_OR_RETURN(input.format, io::DetectInputFormat(input.files));
  return input;
}

Result<io::FeatureSpec> SpecFromFlags(bool may_be_open) {
  if (FLAGS_features.empty()) return Invalid("--features is missing: expected a feature spec");
  ASSIGN_OR_RETURN(io::FeatureSpec spec, io::LoadFeatureSpec(FLAGS_features));
  if (may_be_open || spec.IsFitted()) return spec;
  return Invalid(FLAGS_features +
                 " needs a first pass over the data: millrace-records fit --features=" +
                 FLAGS_features + " --out=FITTED FILES");
}

Status ReadRows(const RowReading& reading, const std::function<Status(std::string_view)>& use,
                SkippedRows& skipped) {
  RowReader reader(reading, use, skipped);
  for (const std::string& file : reading.input.files) RETURN_IF_ERROR(reader.ReadFile(file));
  return {};
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

void PrintSkipped(const SkippedRows& skipped) {
  if (skipped.rows == 0) return;
  std::fprintf(stderr, "millrace-records: %s skipped, the first: %s\n",
               tools::Counted(skipped.rows, "row").c_str(), PrintableLines(skipped.first).c_str());
}

}  // namespace millrace::records
