// SPDX-License-Identifier: Apache-2.0
// One core from the page cache: read, CRC and framing; the same with decoding; memory-mapped
// instead of read.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/example/example_decoder.h"
#include "io/record/block_reader.h"
#include "io/record/record_format.h"
#include "tests/bench/bench_data.h"

namespace millrace::io {
namespace {

constexpr size_t kRows = 400000;

const std::string& TheFile() { return bench::MakeFiles(kRows, 1).front(); }

int64_t FileBytes() {
  struct stat info {};
  return ::stat(TheFile().c_str(), &info) == 0 ? info.st_size : 0;
}

void Report(benchmark::State& state) {
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kRows));
  state.SetBytesProcessed(state.iterations() * FileBytes());
}

void BM_ReadFrames(benchmark::State& state) {
  TheFile();
  for (auto _ : state) {
    auto reader =
        BlockReader::Open(TheFile(), {.block_bytes = static_cast<size_t>(state.range(0))});
    Block block;
    size_t records = 0;
    while (*(*reader)->Next(block)) records += block.records.size();
    if (records != kRows) state.SkipWithError("records lost");
  }
  Report(state);
}
BENCHMARK(BM_ReadFrames)
    ->Arg(64 << 10)
    ->Arg(256 << 10)
    ->Arg(1 << 20)
    ->Unit(benchmark::kMillisecond);

void BM_ReadFramesDecode(benchmark::State& state) {
  TheFile();
  ExampleDecoder decoder({.num_features = bench::kNumFeatures});
  BatchBuilder rows;
  for (auto _ : state) {
    auto reader = BlockReader::Open(TheFile(), {});
    Block block;
    while (*(*reader)->Next(block)) {
      for (size_t i = 0; i < block.records.size(); ++i) {
        if (i % 100 == 0) rows.Clear(false);
        if (!decoder.Append(block.record(i), rows).ok()) state.SkipWithError("decoding failed");
      }
    }
  }
  Report(state);
}
BENCHMARK(BM_ReadFramesDecode)->Unit(benchmark::kMillisecond);

// The rejected design: a mapping saves the copy but costs page faults, and the process crashes if a
// file shrinks.
void BM_MapFrames(benchmark::State& state) {
  const auto size = static_cast<size_t>(FileBytes());
  for (auto _ : state) {
    const int fd = ::open(TheFile().c_str(), O_RDONLY | O_CLOEXEC);
    void* map =
        ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE | (state.range(0) ? MAP_POPULATE : 0), fd, 0);
    const char* p = static_cast<const char*>(map);
    const char* end = p + size;
    uint32_t sum = 0;
    while (p < end) {
      const uint64_t length = LoadU64(p);
      sum += HeaderIsValid(p);
      sum +=
          MaskedCrc32c(p + kRecordHeaderBytes, length) == LoadU32(p + kRecordHeaderBytes + length);
      p += kRecordHeaderBytes + length + kRecordFooterBytes;
    }
    if (sum != 2 * kRows) state.SkipWithError("records lost");
    ::munmap(map, size);
    ::close(fd);
  }
  Report(state);
}
BENCHMARK(BM_MapFrames)->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace millrace::io
