// SPDX-License-Identifier: Apache-2.0
// Reads whole TFRecord files, several in parallel, with a progress line.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "io/record/block_reader.h"

namespace millrace::records {

struct ScanOptions {
  std::string work;  // for the progress line: "verifying"
  size_t threads = 1;
  io::OnCorrupt on_corrupt = io::OnCorrupt::kFail;
  uint64_t max_record_bytes = io::BlockOptions{}.max_record_bytes;
};

// The result of reading one file.
struct FileScan {
  std::string path;
  Status status;  // why the file could not be read to its end
  io::Compression compression = io::Compression::kNone;
  uint64_t disk_bytes = 0;   // of a stream: the decompressed bytes
  uint64_t frame_bytes = 0;  // decompressed, of whole records with their framing
  uint64_t records = 0;
  io::CorruptionStats corruption;
  std::vector<std::string> problems;  // messages, the first kMaxProblems

  static constexpr size_t kMaxProblems = 10'000;
  void AddProblem(const std::string& message) {
    if (problems.size() < kMaxProblems) problems.push_back(message);
  }
};

// Called with each block of records. `thread` is below ScanOptions::threads; calls with the same
// `thread` do not overlap.
using OnBlock = std::function<void(size_t thread, FileScan& file, const io::Block& block)>;

// One FileScan for each of `files`, in their order. With OnCorrupt::kFail, no file is opened
// after the first error.
std::vector<FileScan> ScanFiles(const std::vector<std::string>& files, const ScanOptions& options,
                                const OnBlock& on_block);

// All files as one; `status` is the first that is not ok.
FileScan Total(const std::vector<FileScan>& scans);

}  // namespace millrace::records
