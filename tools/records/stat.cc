// SPDX-License-Identifier: Apache-2.0
// millrace-records stat: what is in the files.

#include <gflags/gflags.h>

#include <cerrno>
#include <cstdio>
#include <vector>

#include "io/base/printable.h"
#include "tools/common/program.h"
#include "tools/common/remote_flags.h"
#include "tools/records/commands.h"
#include "tools/records/field_stats.h"
#include "tools/records/record_stats.h"
#include "tools/records/rows.h"
#include "tools/records/scan.h"
#include "tools/records/stats_report.h"

DEFINE_bool(json, false, "print one JSON object instead of tables");

namespace millrace::records {
namespace {

using tools::Args;
using tools::CommandSpec;
using tools::File;
using tools::OneOf;

int Print(const std::string& text) {
  const bool good = std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  return good ? 0 : Fail(IoError("standard output", errno));
}

int Stat(const std::vector<std::string>& files, const ScanOptions& options,
         const io::FeatureNames& names) {
  std::vector<RecordStats> stats;
  for (size_t i = 0; i < options.threads; ++i) stats.emplace_back(names);
  const auto on_block = [&](size_t thread, FileScan&, const io::Block& block) {
    for (size_t i = 0; i < block.records.size(); ++i) stats[thread].Add(block.record(i));
  };
  const std::vector<FileScan> scans = ScanFiles(files, options, on_block);
  if (const Status status = Total(scans).status; !status.ok()) return Fail(status);
  for (size_t i = 1; i < stats.size(); ++i) stats[0].Merge(stats[i]);
  return Print(FLAGS_json ? StatsJson(scans, stats[0])
                          : PrintableLines(StatsText(scans, stats[0])));
}

Result<std::string> StatFields(const Args& args) {
  ASSIGN_OR_RETURN(const io::FeatureSpec spec, SpecFromFlags());
  ASSIGN_OR_RETURN(const auto plan, io::EncoderPlan::Make(spec));
  RowReading reading = {.work = "reading"};
  ASSIGN_OR_RETURN(reading.input, RowInput(args));
  RETURN_IF_ERROR(io::UseFeatures(plan, reading.input));
  reading.input.rows.labels = io::Labels::kOptional;
  RETURN_IF_ERROR(io::CheckNames(reading.input));
  tools::CatchInterrupts();
  FieldStats stats(plan);
  RETURN_IF_ERROR(ReadFieldRows(reading, plan->columns(),
                                [&](const io::FieldRow& row) { return stats.Add(row); }));
  return FLAGS_json ? stats.Json() : PrintableLines(stats.Text());
}

}  // namespace

const CommandSpec& StatSpec() {
  static const CommandSpec spec = tools::WithRemoteFlags(
      {.name = "millrace-records stat",
       .job = "shows what is in the files: records, features, labels, keys",
       .arguments = "FILE...",
       .groups = {{"Output", {"json"}},
                  {"Rows of named columns",
                   {"features", "duckdb"},
                   {{"features", File()}, {"duckdb", File()}}},
                  {"Features of sparse examples",
                   {"label_feature", "index_feature", "value_feature"}},
                  {"Work",
                   {"threads", "on_corrupt", "max_record_mb"},
                   {{"on_corrupt", OneOf({"fail", "skip"})}}}},
       .always = {"json", "features", "on_corrupt", "max_record_mb"},
       .needs = {{{"duckdb"}, {"features"}},
                 {.flags = {"label_feature", "index_feature", "value_feature", "threads"},
                  .with = {"features"},
                  .values = {""},
                  .text = "a run without --features"}},
       .examples = {"millrace-records stat 'data/train-*'",
                    "millrace-records stat --json data/test-00000-of-00001.tfrecord.zst",
                    "millrace-records stat --features=spec.json rows.csv"}});
  return spec;
}

int RunStat(const Args& args) {
  if (const Status flags = tools::CheckEffects(StatSpec()); !flags.ok()) return Fail(flags);
  if (!FLAGS_features.empty()) {
    const Result<std::string> text = StatFields(args);
    return text.ok() ? Print(*text) : Fail(text.status());
  }
  const Result<io::OnCorrupt> on_corrupt = io::OnCorruptFromName(FLAGS_on_corrupt);
  if (!on_corrupt.ok()) return Fail(on_corrupt.status());
  const Result<std::vector<std::string>> files = InputFiles(args);
  if (!files.ok()) return Fail(files.status());
  const Result<size_t> threads = ThreadsFromFlags();
  if (!threads.ok()) return Fail(threads.status());
  const Result<uint64_t> max_record_bytes = tools::MaxRecordBytes(FLAGS_max_record_mb);
  if (!max_record_bytes.ok()) return Fail(max_record_bytes.status());
  return Stat(*files,
              {.work = "reading",
               .threads = *threads,
               .on_corrupt = *on_corrupt,
               .max_record_bytes = *max_record_bytes},
              FeatureNamesFromFlags());
}

}  // namespace millrace::records
