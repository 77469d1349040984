// SPDX-License-Identifier: Apache-2.0
// millrace-records cat: shows records as JSON lines, or as their bytes.

#include <gflags/gflags.h>

#include <cerrno>
#include <cstdio>
#include <string>

#include "io/example/feature_view.h"
#include "io/record/record_reader.h"
#include "io/text/file_format.h"
#include "tools/common/progress.h"
#include "tools/common/remote_flags.h"
#include "tools/records/commands.h"
#include "tools/records/record_json.h"

DEFINE_uint64(limit, 0, "records to show; 0: all");
DEFINE_uint64(skip, 0, "records to skip at the beginning");
DEFINE_bool(raw, false, "write the bytes of the records, with nothing between them");
DEFINE_bool(hex, false, "write each record as a line of hexadecimal digits");

namespace millrace::records {
namespace {

using tools::Args;
using tools::BytesText;
using tools::CommandSpec;
using tools::MessageText;
using tools::OneOf;
using tools::WithCommas;

enum class CatForm { kJson, kHex, kRaw };

struct CatOptions {
  CatForm form = CatForm::kJson;
  uint64_t skip = 0;
  uint64_t limit = 0;
  io::OnCorrupt on_corrupt = io::OnCorrupt::kFail;
  uint64_t max_record_bytes = io::BlockOptions{}.max_record_bytes;
};

Result<CatOptions> OptionsFromFlags() {
  if (FLAGS_raw && FLAGS_hex) return Invalid("--raw and --hex: give one of them");
  ASSIGN_OR_RETURN(const io::OnCorrupt on_corrupt, io::OnCorruptFromName(FLAGS_on_corrupt));
  ASSIGN_OR_RETURN(const uint64_t max_record_bytes, tools::MaxRecordBytes(FLAGS_max_record_mb));
  return CatOptions{.form = FLAGS_raw   ? CatForm::kRaw
                            : FLAGS_hex ? CatForm::kHex
                                        : CatForm::kJson,
                    .skip = FLAGS_skip,
                    .limit = FLAGS_limit,
                    .on_corrupt = on_corrupt,
                    .max_record_bytes = max_record_bytes};
}

void AppendHex(std::string_view bytes, std::string& out) {
  constexpr char kDigits[] = "0123456789abcdef";
  for (const char c : bytes) {
    out += kDigits[static_cast<unsigned char>(c) >> 4];
    out += kDigits[c & 15];
  }
}

// Writes records to standard output in large blocks.
class Cat {
 public:
  explicit Cat(const CatOptions& options) : options_(options) {}

  // Whether the limit is not reached yet.
  bool WantsMore() const { return options_.limit == 0 || shown_ < options_.limit; }

  Status ShowFile(const std::string& path) {
    const io::BlockOptions blocks{.on_corrupt = options_.on_corrupt,
                                  .max_record_bytes = options_.max_record_bytes,
                                  .describe_content = io::DescribeContent};
    ASSIGN_OR_RETURN(io::RecordReader reader, io::RecordReader::Open(path, blocks));
    const Status status = ShowRecords(reader);
    corruption_.Merge(reader.corruption());
    return status;
  }

  Status Flush() {
    const size_t written = std::fwrite(out_.data(), 1, out_.size(), stdout);
    const bool good = written == out_.size() && std::fflush(stdout) == 0;
    out_.clear();
    return good ? Status() : IoError("standard output", errno);
  }

  const io::CorruptionStats& corruption() const { return corruption_; }

 private:
  static constexpr size_t kFlushBytes = 64 << 10;

  Status ShowRecords(io::RecordReader& reader) {
    io::RecordView record;
    while (WantsMore()) {
      ASSIGN_OR_RETURN(const bool more, reader.Next(record));
      if (!more) break;
      if (skipped_ < options_.skip) {
        ++skipped_;
        continue;
      }
      Show(record.bytes);
      if (out_.size() >= kFlushBytes) RETURN_IF_ERROR(Flush());
    }
    return {};
  }

  void Show(std::string_view record) {
    ++shown_;
    if (options_.form == CatForm::kRaw) {
      out_ += record;
      return;
    }
    if (options_.form == CatForm::kHex) {
      AppendHex(record, out_);
    } else {
      AppendRecordJson(record, view_, out_);
    }
    out_ += '\n';
  }

  CatOptions options_;
  uint64_t skipped_ = 0;
  uint64_t shown_ = 0;
  io::CorruptionStats corruption_;
  io::ExampleView view_;
  std::string out_;
};

void ReportCorruption(const io::CorruptionStats& corruption) {
  if (corruption.events == 0) return;
  std::fprintf(stderr, "millrace-records: skipped %s corrupt region%s, %s; the first: %s\n",
               WithCommas(corruption.events).c_str(), corruption.events == 1 ? "" : "s",
               BytesText(corruption.bytes).c_str(), MessageText(corruption.first).c_str());
}

}  // namespace

const CommandSpec& CatSpec() {
  static const CommandSpec spec = tools::WithRemoteFlags(
      {.name = "millrace-records cat",
       .job = "shows records as JSON lines",
       .arguments = "FILE...",
       .groups = {{"Selection",
                   {"skip", "limit", "on_corrupt", "max_record_mb"},
                   {{"on_corrupt", OneOf({"fail", "skip"})}}},
                  {"Output format", {"raw", "hex"}}},
       .always = {"skip", "limit", "on_corrupt", "max_record_mb", "raw", "hex"},
       .examples = {
           "millrace-records cat --limit=3 data/train-00000-of-00008.tfrecord",
           "millrace-records cat 'data/test-*' | head -n 1",
           "millrace-records cat --raw --skip=5 --limit=1 data/photos.tfrecord > one.pb"}});
  return spec;
}

int RunCat(const Args& args) {
  if (const Status flags = tools::CheckEffects(CatSpec()); !flags.ok()) return Fail(flags);
  const Result<CatOptions> options = OptionsFromFlags();
  if (!options.ok()) return Fail(options.status());
  const Result<std::vector<std::string>> files = InputFiles(args);
  if (!files.ok()) return Fail(files.status());
  Cat cat(*options);
  Status status;
  for (const std::string& path : *files) {
    if (!status.ok() || !cat.WantsMore()) break;
    status = cat.ShowFile(path);
  }
  // Records before an error are shown before the error.
  const Status flushed = cat.Flush();
  ReportCorruption(cat.corruption());
  if (!status.ok()) return Fail(status);
  return flushed.ok() ? 0 : Fail(flushed);
}

}  // namespace millrace::records
