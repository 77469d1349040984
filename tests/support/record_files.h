// SPDX-License-Identifier: Apache-2.0
// Records as files of TFRecord frames, and the result of reading a file.
#pragma once

#include <string>
#include <vector>

#include "io/base/random.h"
#include "io/record/record_format.h"
#include "io/record/record_reader.h"
#include "io/record/record_writer.h"

namespace millrace::test {

struct Outcome {
  std::vector<std::string> records;
  Status status;
  io::CorruptionStats corruption;
};

inline Outcome ReadAll(const std::string& path, const io::BlockOptions& options = {}) {
  Outcome outcome;
  auto reader = io::RecordReader::Open(path, options);
  outcome.status = reader.status();
  io::RecordView record;
  while (outcome.status.ok()) {
    const Result<bool> more = reader->Next(record);
    outcome.status = more.status();
    if (!more.ok() || !*more) break;
    outcome.records.emplace_back(record.bytes);
  }
  if (reader.ok()) outcome.corruption = reader->corruption();
  return outcome;
}

inline io::BlockOptions Skipping(size_t block_bytes = 256 << 10) {
  return {.on_corrupt = io::OnCorrupt::kSkip, .block_bytes = block_bytes};
}

inline std::vector<std::string> SomeRecords() {
  std::vector<std::string> records = {"first", "", std::string(300, 'x'), "a\nb",
                                      std::string("\0\1\2", 3)};
  Random random(11);
  for (int i = 0; i < 5; ++i) {
    std::string noise(random.Below(40), ' ');
    for (char& c : noise) c = static_cast<char>(random.Next());
    records.push_back(noise);
  }
  return records;
}

inline std::string Frames(const std::vector<std::string>& records) {
  std::string bytes;
  for (const std::string& record : records) io::AppendFrame(record, bytes);
  return bytes;
}

// Where each frame begins, and the end.
inline std::vector<size_t> FrameOffsets(const std::vector<std::string>& records) {
  std::vector<size_t> offsets = {0};
  for (const std::string& r : records) {
    offsets.push_back(offsets.back() + io::kRecordHeaderBytes + r.size() + io::kRecordFooterBytes);
  }
  return offsets;
}

}  // namespace millrace::test
