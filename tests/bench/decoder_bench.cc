// SPDX-License-Identifier: Apache-2.0
// Decoding of examples of 39 indices, 39 values and a label: ours at every level, and protobuf with
// an arena.
#include <benchmark/benchmark.h>
#include <google/protobuf/arena.h>

#include "io/base/raw_buffer.h"
#include "io/example/example_decoder.h"
#include "io/example/feature_view.h"
#include "io/example/varint_list.h"
#include "tests/bench/bench_data.h"
#include "tests/proto/example.pb.h"

namespace millrace::io {
namespace {

constexpr size_t kRecords = 2000;
constexpr size_t kBatch = 100;

// Records one behind the other, as a block has them.
struct Records {
  RawBuffer bytes;
  std::vector<std::pair<size_t, size_t>> spans;

  Records() {
    for (const std::string& example : bench::MakeExamples(kRecords, 1)) {
      spans.emplace_back(bytes.size(), example.size());
      bytes.Append(example.data(), example.size());
    }
  }
  std::string_view operator[](size_t i) const {
    return {bytes.data() + spans[i].first, spans[i].second};
  }
};

bool Lacks(benchmark::State& state, CpuLevel level) {
  if (level <= DetectCpuLevel()) return false;
  state.SkipWithError("this processor lacks the instructions");
  return true;
}

void Report(benchmark::State& state, const Records& records) {
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kRecords));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * records.bytes.size()));
}

void BM_DecodeMillrace(benchmark::State& state) {
  const auto level = static_cast<CpuLevel>(state.range(0));
  if (Lacks(state, level)) return;
  const Records records;
  ExampleDecoder decoder({.num_features = bench::kNumFeatures}, level);
  BatchBuilder rows;
  for (auto _ : state) {
    for (size_t i = 0; i < kRecords; ++i) {
      if (i % kBatch == 0) rows.Clear(false);
      if (!decoder.Append(records[i], rows).ok()) state.SkipWithError("decoding failed");
    }
    benchmark::DoNotOptimize(rows.batch.cols.data());
  }
  Report(state, records);
  state.SetLabel(CpuLevelName(level));
}
BENCHMARK(BM_DecodeMillrace)->Arg(0)->Arg(2)->Arg(3);

void BM_DecodeGeneral(benchmark::State& state) {
  const Records records;
  ExampleView view;
  for (auto _ : state) {
    for (size_t i = 0; i < kRecords; ++i) {
      if (!ParseExample(records[i], view).ok()) state.SkipWithError("decoding failed");
    }
  }
  Report(state, records);
}
BENCHMARK(BM_DecodeGeneral);

void BM_DecodeProtobufArena(benchmark::State& state) {
  const Records records;
  std::vector<char> memory(1 << 20);
  google::protobuf::ArenaOptions options;
  options.initial_block = memory.data();
  options.initial_block_size = memory.size();
  google::protobuf::Arena arena(options);
  for (auto _ : state) {
    for (size_t i = 0; i < kRecords; ++i) {
      if (i % kBatch == 0) arena.Reset();
      auto* example = google::protobuf::Arena::CreateMessage<tensorflow::Example>(&arena);
      if (!example->ParseFromArray(records[i].data(), static_cast<int>(records[i].size()))) {
        state.SkipWithError("decoding failed");
      }
      benchmark::DoNotOptimize(example);
    }
  }
  Report(state, records);
}
BENCHMARK(BM_DecodeProtobufArena);

void BM_VarintList(benchmark::State& state) {
  const auto level = static_cast<CpuLevel>(state.range(0));
  if (Lacks(state, level)) return;
  const std::vector<uint64_t> keys = bench::MakeKeys(kRecords, 1);
  RawBuffer bytes;
  std::vector<size_t> begins = {0};
  for (size_t i = 0; i < keys.size(); ++i) {
    uint64_t key = keys[i];
    for (; key >= 0x80; key >>= 7)
      bytes.Append("", 1), bytes.data()[bytes.size() - 1] = static_cast<char>(key | 0x80);
    bytes.Append("", 1);
    bytes.data()[bytes.size() - 1] = static_cast<char>(key);
    if (i % bench::kFields == bench::kFields - 1) begins.push_back(bytes.size());
  }
  const Varints32Function decode = DecodeVarints32For(level);
  std::vector<uint32_t> out(1024);
  for (auto _ : state) {
    for (size_t i = 0; i + 1 < begins.size(); ++i) {
      benchmark::DoNotOptimize(
          decode({bytes.data() + begins[i], begins[i + 1] - begins[i]}, out.data()));
    }
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * keys.size()));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * bytes.size()));
  state.SetLabel(CpuLevelName(level));
}
BENCHMARK(BM_VarintList)->Arg(0)->Arg(2)->Arg(3);

}  // namespace
}  // namespace millrace::io
