// SPDX-License-Identifier: Apache-2.0
// millrace-records verify: checks every CRC of every file, and optionally that every record is an
// Example.

#include <gflags/gflags.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "io/example/feature_view.h"
#include "tools/common/progress.h"
#include "tools/common/remote_flags.h"
#include "tools/records/commands.h"
#include "tools/records/scan.h"

DEFINE_bool(examples, false, "also check that each record is an Example or a SequenceExample");

namespace millrace::records {
namespace {

using tools::Args;
using tools::BytesText;
using tools::CommandSpec;
using tools::DurationText;
using tools::kExitFailure;
using tools::WithCommas;

std::string WhyNotAnExample(std::string_view record, io::ExampleView& view) {
  const Status status = io::ParseSequenceExample(record, view);
  if (!status.ok()) return status.message();
  return "expected only the fields of an Example, found " + std::to_string(view.unknown_fields()) +
         " unknown ones";
}

void CheckExamples(const io::Block& block, io::ExampleView& view, FileScan& file) {
  for (size_t i = 0; i < block.records.size(); ++i) {
    const std::string_view record = block.record(i);
    if (io::DetectRecordKind(record, view) != io::RecordKind::kOther) continue;
    const uint64_t offset = block.offset(i, io::Framing::kTfRecord);
    const std::string message = file.path + ": offset " + std::to_string(offset) +
                                ": not an Example: " + WhyNotAnExample(record, view);
    file.corruption.Add(0, message);
    file.AddProblem(message);
  }
}

void Print(const std::string& line) { std::printf("%s\n", tools::MessageText(line).c_str()); }

// Prints the problems of one file and returns their number.
uint64_t ReportFile(const FileScan& file) {
  for (const std::string& message : file.problems) Print(message);
  const uint64_t shown = file.problems.size();
  if (file.corruption.events > shown) {
    Print(file.path + ": " + WithCommas(file.corruption.events - shown) + " more corrupt regions");
  }
  if (!file.status.ok()) Print(file.status.message());
  return file.corruption.events + (file.status.code() == Code::kCorrupt ? 1 : 0);
}

// A file that the system refuses to read is not corrupt.
bool WasRead(const FileScan& file) {
  return file.status.ok() || file.status.code() == Code::kCorrupt;
}

std::string Plural(uint64_t count, const std::string& noun) {
  return WithCommas(count) + " " + noun + (count == 1 ? "" : "s");
}

void PrintSummary(const std::vector<FileScan>& scans, uint64_t corrupt, uint64_t corrupt_files,
                  uint64_t unread, double seconds) {
  const FileScan total = Total(scans);
  std::printf("%s, %s, %s, %s, %.2f GB/s: ", Plural(scans.size(), "file").c_str(),
              Plural(total.records, "good record").c_str(), BytesText(total.frame_bytes).c_str(),
              DurationText(seconds).c_str(),
              static_cast<double>(total.frame_bytes) / 1e9 / std::max(seconds, 1e-9));
  if (unread > 0)
    std::printf("%s could not be read%s", Plural(unread, "file").c_str(),
                corrupt > 0 ? ", " : "\n");
  if (corrupt == 0) {
    if (unread == 0) std::printf("all good\n");
    return;
  }
  std::printf("%s in %s, %s lost\n", Plural(corrupt, "corrupt region").c_str(),
              Plural(corrupt_files, "file").c_str(), BytesText(total.corruption.bytes).c_str());
}

int Verify(const std::vector<std::string>& files, const ScanOptions& options, bool examples) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<io::ExampleView> views(options.threads);
  const auto on_block = [&](size_t thread, FileScan& file, const io::Block& block) {
    if (examples) CheckExamples(block, views[thread], file);
  };
  const std::vector<FileScan> scans = ScanFiles(files, options, on_block);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  uint64_t corrupt = 0;
  uint64_t corrupt_files = 0;
  for (const FileScan& file : scans) {
    const uint64_t problems = ReportFile(file);
    corrupt += problems;
    corrupt_files += problems > 0;
  }
  const auto unread = static_cast<uint64_t>(std::count_if(
      scans.begin(), scans.end(), [](const FileScan& file) { return !WasRead(file); }));
  PrintSummary(scans, corrupt, corrupt_files, unread, seconds.count());
  return corrupt == 0 && unread == 0 ? 0 : kExitFailure;
}

}  // namespace

const CommandSpec& VerifySpec() {
  static const CommandSpec spec = tools::WithRemoteFlags(
      {.name = "millrace-records verify",
       .job = "checks every CRC of every record; exit status 1 if a record is corrupt",
       .arguments = "FILE...",
       .groups = {{"Checks", {"examples"}}, {"Work", {"threads", "max_record_mb"}}},
       .always = {"examples", "threads", "max_record_mb"},
       .examples = {"millrace-records verify 'data/*.tfrecord'",
                    "millrace-records verify --examples data/train-00000-of-00008.tfrecord"}});
  return spec;
}

int RunVerify(const Args& args) {
  if (const Status flags = tools::CheckEffects(VerifySpec()); !flags.ok()) return Fail(flags);
  const Result<std::vector<std::string>> files = InputFiles(args);
  if (!files.ok()) return Fail(files.status());
  const Result<size_t> threads = ThreadsFromFlags();
  if (!threads.ok()) return Fail(threads.status());
  const Result<uint64_t> max_record_bytes = tools::MaxRecordBytes(FLAGS_max_record_mb);
  if (!max_record_bytes.ok()) return Fail(max_record_bytes.status());
  return Verify(*files,
                {.work = "verifying",
                 .threads = *threads,
                 .on_corrupt = io::OnCorrupt::kSkip,
                 .max_record_bytes = *max_record_bytes},
                FLAGS_examples);
}

}  // namespace millrace::records
