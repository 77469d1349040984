// SPDX-License-Identifier: Apache-2.0
#include "tools/common/read_rows.h"

#include <cstdio>

#include "io/base/printable.h"
#include "io/record/record_reader.h"
#include "io/stream/block_pool.h"
#include "io/table/table_reader.h"
#include "tools/common/program.h"
#include "tools/common/progress.h"

namespace millrace::tools {
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
    ASSIGN_OR_RETURN(auto source, io::OpenBlocks(file, blocks_));
    io::RecordReader records(std::move(source), blocks_.framing);
    io::RecordView record;
    uint64_t bytes = 0;
    for (uint64_t rows = 0; reading_.rows_per_file == 0 || rows < reading_.rows_per_file; ++rows) {
      if (reading_.bytes_per_file > 0 && bytes >= reading_.bytes_per_file) break;
      ASSIGN_OR_RETURN(const bool more, records.Next(record));
      if (!more) break;
      bytes += record.bytes.size();
      const Status used = use_(record.bytes);
      if (!used.ok()) RETURN_IF_ERROR(Skip(Located(file, record.offset, used)));
      if (++rows_ % kProgressRows != 0) continue;
      if (Interrupted()) return Cancelled("interrupted: nothing was written");
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
  Progress progress_;
  uint64_t rows_ = 0;
};

}  // namespace

Status ReadRows(const RowReading& reading, const std::function<Status(std::string_view)>& use,
                SkippedRows& skipped) {
  RowReader reader(reading, use, skipped);
  for (const std::string& file : reading.input.files) RETURN_IF_ERROR(reader.ReadFile(file));
  return {};
}

void PrintSkipped(const char* program, const SkippedRows& skipped) {
  if (skipped.rows == 0) return;
  std::fprintf(stderr, "%s: %s skipped, the first: %s\n", program,
               Counted(skipped.rows, "row").c_str(), PrintableLines(skipped.first).c_str());
}

}  // namespace millrace::tools
