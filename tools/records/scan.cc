// SPDX-License-Identifier: Apache-2.0
#include "tools/records/scan.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "io/record/record_format.h"
#include "io/text/file_format.h"
#include "tools/common/progress.h"

namespace millrace::records {
namespace {

using tools::Progress;

constexpr uint64_t kMegabyte = 1'000'000;

// 0 if the size of a file is unknown.
uint64_t DiskMegabytes(const std::vector<std::string>& files) {
  uint64_t bytes = 0;
  for (const std::string& path : files) {
    const int64_t size = io::FileBytes(path);
    if (size < 0) return 0;
    bytes += static_cast<uint64_t>(size);
  }
  return bytes / kMegabyte;
}

// Counts bytes on disk, shows megabytes.
class DiskProgress {
 public:
  DiskProgress(const std::string& work, const std::vector<std::string>& files)
      : progress_({.work = work, .unit = "MB", .total = DiskMegabytes(files)}) {}

  void Add(uint64_t bytes) {
    const uint64_t before = bytes_.fetch_add(bytes, std::memory_order_relaxed);
    progress_.Add((before + bytes) / kMegabyte - before / kMegabyte);
  }

 private:
  Progress progress_;
  std::atomic<uint64_t> bytes_{0};
};

class FileScanner {
 public:
  FileScanner(const ScanOptions& options, size_t thread, const OnBlock& on_block,
              DiskProgress& progress)
      : options_(options), thread_(thread), on_block_(on_block), progress_(progress) {}

  void Scan(FileScan& file) {
    const io::BlockOptions blocks{
        .on_corrupt = options_.on_corrupt,
        .max_record_bytes = options_.max_record_bytes,
        .on_corruption = [&](const std::string& what) { file.AddProblem(what); },
        .describe_content = io::DescribeContent};
    auto reader = io::BlockReader::Open(file.path, blocks);
    if (!reader.ok()) {
      file.status = reader.status();
      return;
    }
    file.compression = (*reader)->compression();
    file.status = ReadAll(**reader, file);
    file.corruption.Merge((*reader)->corruption());
    const int64_t size = (*reader)->file_bytes();
    file.disk_bytes = size < 0 ? file.frame_bytes : static_cast<uint64_t>(size);
    progress_.Add(file.disk_bytes - std::min(file.disk_bytes, counted_));
  }

 private:
  Status ReadAll(io::BlockReader& reader, FileScan& file) {
    counted_ = 0;
    for (;;) {
      ASSIGN_OR_RETURN(const bool more, reader.Next(block_));
      if (!more) return {};
      Count(file);
      on_block_(thread_, file, block_);
    }
  }

  void Count(FileScan& file) {
    uint64_t bytes = 0;
    for (const io::RecordSpan& record : block_.records) {
      bytes += io::kRecordHeaderBytes + record.size + io::kRecordFooterBytes;
    }
    file.records += block_.records.size();
    file.frame_bytes += bytes;
    // The position in a compressed file is unknown until its end.
    if (file.compression != io::Compression::kNone) return;
    counted_ += bytes;
    progress_.Add(bytes);
  }

  const ScanOptions& options_;
  size_t thread_;
  const OnBlock& on_block_;
  DiskProgress& progress_;
  io::Block block_;
  uint64_t counted_ = 0;  // bytes of the current file that are already in the progress line
};

}  // namespace

std::vector<FileScan> ScanFiles(const std::vector<std::string>& files, const ScanOptions& options,
                                const OnBlock& on_block) {
  std::vector<FileScan> scans(files.size());
  for (size_t i = 0; i < files.size(); ++i) scans[i].path = files[i];
  DiskProgress progress(options.work, files);
  std::atomic<size_t> next{0};
  std::atomic<bool> stop{false};
  const auto work = [&](size_t thread) {
    FileScanner scanner(options, thread, on_block, progress);
    for (size_t i = next++; i < scans.size() && !stop; i = next++) {
      scanner.Scan(scans[i]);
      if (!scans[i].status.ok() && options.on_corrupt == io::OnCorrupt::kFail) stop = true;
    }
  };
  std::vector<std::jthread> threads;
  const size_t count = std::min(options.threads, files.size());
  for (size_t thread = 1; thread < count; ++thread) threads.emplace_back(work, thread);
  work(0);
  threads.clear();
  return scans;
}

FileScan Total(const std::vector<FileScan>& scans) {
  FileScan total;
  for (const FileScan& file : scans) {
    if (total.status.ok()) total.status = file.status;
    total.disk_bytes += file.disk_bytes;
    total.frame_bytes += file.frame_bytes;
    total.records += file.records;
    total.corruption.Merge(file.corruption);
  }
  return total;
}

}  // namespace millrace::records
