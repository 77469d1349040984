// SPDX-License-Identifier: Apache-2.0
#include "trainer/run/metrics_log.h"

#include <charconv>
#include <string_view>

#include "io/base/regular_file.h"
#include "io/record/output_file.h"

namespace millrace::trainer {
namespace {

// A file of rows: its header line (or none), and what a row has before its step.
struct RowFile {
  std::string path;
  std::string header;
  std::string_view row_start;
};

// A file that is not there is empty.
Result<std::string> ReadText(const std::string& path) {
  Result<std::string> text = ReadRegularFile(path);
  return text.status().code() == Code::kNotFound ? std::string() : text;
}

std::optional<uint64_t> StepOf(std::string_view line, std::string_view row_start) {
  if (!line.starts_with(row_start)) return std::nullopt;
  const char* const line_end = line.data() + line.size();
  uint64_t step = 0;
  const auto [end, error] = std::from_chars(line.data() + row_start.size(), line_end, step);
  if (error != std::errc() || end == line_end || *end != ',') return std::nullopt;
  return step;
}

Status BadLine(const std::string& path, size_t number, std::string_view line,
               std::string_view expected) {
  return Corrupt(path + ", line " + std::to_string(number) + ": expected " + std::string(expected) +
                 ", found \"" + std::string(line.substr(0, 80)) + "\"");
}

// What stays of a file's text: the header and the rows up to `last_step`. A last line without its
// end was torn by a crash and goes.
Result<std::string> KeptText(const RowFile& file, std::string_view text, uint64_t last_step) {
  std::string kept = file.header;
  size_t number = 1;
  for (size_t end; (end = text.find('\n')) != std::string_view::npos; ++number) {
    const std::string_view line = text.substr(0, end);
    const std::string_view whole = text.substr(0, end + 1);
    text.remove_prefix(end + 1);
    if (number == 1 && !file.header.empty()) {
      if (whole != file.header) return BadLine(file.path, 1, line, "the columns of this version");
      continue;
    }
    const std::optional<uint64_t> step = StepOf(line, file.row_start);
    if (!step) return BadLine(file.path, number, line, "a row that begins with its step");
    if (*step <= last_step) kept += whole;
  }
  return kept;
}

Status Replace(const std::string& path, std::string_view text) {
  ASSIGN_OR_RETURN(io::OutputFile file, io::OutputFile::Create(path, io::AtPath::kReplace));
  RETURN_IF_ERROR(file.Write(text));
  return file.Commit();
}

Result<AppendFile> OpenRows(const RowFile& file, std::optional<uint64_t> resume_step) {
  std::string text;
  if (resume_step) {
    ASSIGN_OR_RETURN(text, ReadText(file.path));
  }
  ASSIGN_OR_RETURN(const std::string kept, KeptText(file, text, resume_step.value_or(0)));
  if (!resume_step || kept != text) RETURN_IF_ERROR(Replace(file.path, kept));
  return AppendFile::Open(file.path);
}

}  // namespace

Result<MetricsLog> MetricsLog::Open(const MetricsLogOptions& options) {
  const RowFile csv = {options.run_dir + "/metrics.csv", CsvHeader(options.columns), ""};
  const RowFile jsonl = {options.run_dir + "/metrics.jsonl", "", "{\"step\":"};
  ASSIGN_OR_RETURN(AppendFile csv_rows, OpenRows(csv, options.resume_step));
  ASSIGN_OR_RETURN(AppendFile jsonl_rows, OpenRows(jsonl, options.resume_step));
  ASSIGN_OR_RETURN(EventFile events, EventFile::Create({.folder = options.run_dir,
                                                        .host = options.host,
                                                        .wall_time_s = options.wall_time_s,
                                                        .resume_step = options.resume_step}));
  return MetricsLog(std::move(csv_rows), std::move(jsonl_rows), std::move(events));
}

Status MetricsLog::Append(const MetricsRow& row, double wall_time_s) {
  RETURN_IF_ERROR(csv_.Append(CsvLine(row)));
  RETURN_IF_ERROR(jsonl_.Append(JsonLine(row)));
  return events_.Add(wall_time_s, row.step, EventScalars(row));
}

Status MetricsLog::Sync() {
  RETURN_IF_ERROR(csv_.Sync());
  RETURN_IF_ERROR(jsonl_.Sync());
  return events_.Sync();
}

}  // namespace millrace::trainer
