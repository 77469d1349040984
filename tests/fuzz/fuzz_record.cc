// SPDX-License-Identifier: Apache-2.0
// The record reader on any bytes, as a file of any compression: no crash, no hang, no absurd
// allocation; both block sizes agree; a corrupt file is rejected when failing and gives a subset of
// records when skipping.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "io/record/block_reader.h"

namespace millrace::io {
namespace {

// Bombs of compressed zeros are not read in tiny blocks as well, those of newlines not to the end.
constexpr size_t kMaxTinyBytes = 1 << 17;
constexpr size_t kMaxRecords = 1 << 17;

struct Outcome {
  std::vector<std::string> records;
  size_t bytes = 0;  // delivered or skipped
  bool ok = true;
  bool refused = false;  // as no file of this framing
  bool whole = true;
  CorruptionStats corruption;
};

Outcome ReadAll(std::string_view bytes, const BlockOptions& options) {
  Outcome outcome;
  OpenedSource source =
      Decompressed(std::make_unique<MemorySource>(bytes), "input", DetectCompression(bytes));
  BlockReader reader("input", std::move(source), options);
  Block block;
  while (true) {
    const Result<bool> more = reader.Next(block);
    outcome.ok = more.ok();
    outcome.refused = more.status().code() == Code::kInvalid;
    if (!more.ok() || !*more) break;
    CHECK(!block.records.empty());
    for (size_t i = 0; i < block.records.size(); ++i) {
      CHECK(block.records[i].begin + size_t{block.records[i].size} <= block.bytes.size());
      outcome.records.emplace_back(block.record(i));
      outcome.bytes += block.records[i].size + size_t{1};
    }
    outcome.whole = outcome.records.size() <= kMaxRecords;
    if (!outcome.whole) break;
  }
  outcome.corruption = reader.corruption();
  outcome.bytes += outcome.corruption.bytes;
  return outcome;
}

bool IsSubsequence(const std::vector<std::string>& part, const std::vector<std::string>& whole) {
  size_t at = 0;
  for (const std::string& record : whole) at += at < part.size() && part[at] == record;
  return at == part.size();
}

void Check(std::string_view bytes, Framing framing) {
  // A small bound on records keeps bombs of compressed zeros quick.
  BlockOptions options{.framing = framing, .block_bytes = 1 << 12, .max_record_bytes = 1 << 16};
  const Outcome failing = ReadAll(bytes, options);
  options.on_corrupt = OnCorrupt::kSkip;
  const Outcome skipping = ReadAll(bytes, options);
  CHECK(failing.refused == skipping.refused);
  if (skipping.refused) {
    CHECK(framing == Framing::kLines && skipping.records.empty());
    return;
  }
  if (!skipping.whole || skipping.bytes > kMaxTinyBytes) return;
  options.block_bytes = 13;
  const Outcome tiny = ReadAll(bytes, options);
  // How much of a corrupt stream a decompressor gives before it stops depends on how it is asked.
  const bool cut = DetectCompression(bytes) != Compression::kNone && !failing.ok;
  if (cut && tiny.refused) return;
  CHECK(skipping.ok && tiny.ok);
  CHECK(failing.ok == (skipping.corruption.events == 0));
  CHECK((tiny.corruption.events == 0) == (skipping.corruption.events == 0));
  CHECK(IsSubsequence(failing.records, skipping.records));
  if (cut) return;
  CHECK(skipping.records == tiny.records);
  CHECK(skipping.corruption.bytes == tiny.corruption.bytes);
  CHECK(skipping.corruption.events == tiny.corruption.events);
}

// zstd allocates the window that a frame's header asks for, up to 128 MB: under AddressSanitizer
// nine tenths of the time would go there, so libFuzzer tries only a few such inputs (replay tries
// all). Header: magic (4 bytes), descriptor, window (unless it is a single segment).
[[maybe_unused]] bool AsksForLargeWindow(std::string_view bytes) {
  constexpr std::string_view kMagic = "\x28\xb5\x2f\xfd";
  constexpr size_t kDescriptor = 4, kWindow = 5;
  constexpr int kExponentOf128Kb = 7;
  for (size_t at = bytes.find(kMagic); at != bytes.npos; at = bytes.find(kMagic, at + 1)) {
    if (at + kWindow >= bytes.size()) return false;
    const auto descriptor = static_cast<uint8_t>(bytes[at + kDescriptor]);
    const auto window = static_cast<uint8_t>(bytes[at + kWindow]);
    const bool single_segment = (descriptor & 0x20) != 0;
    const bool wide_size = (descriptor >> 6) > 1;  // a content size of 4 or 8 bytes
    if (single_segment ? wide_size : (window >> 3) > kExponentOf128Kb) return true;
  }
  return false;
}

}  // namespace
}  // namespace millrace::io

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 4096) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
#ifdef MILLRACE_FUZZ
  if (millrace::io::AsksForLargeWindow(bytes) && size % 256 != 0) return 0;
#endif
  millrace::io::Check(bytes, millrace::io::Framing::kTfRecord);
  millrace::io::Check(bytes, millrace::io::Framing::kLines);
  return 0;
}
