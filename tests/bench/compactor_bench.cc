// SPDX-License-Identifier: Apache-2.0
// Key compaction of a batch (rows x 39 keys): the designs side by side.
#include <benchmark/benchmark.h>

#include "io/batch/key_compactor.h"
#include "tests/bench/bench_data.h"
#include "tests/bench/compactor_designs.h"

namespace millrace::io {
namespace {

constexpr size_t kBatches = 50;

// Copies each batch, then compacts the copy; the copy is a hundredth of the time.
template <typename Compact>
void Run(benchmark::State& state, Compact compact) {
  const auto rows = static_cast<size_t>(state.range(0));
  const std::vector<uint64_t> keys = bench::MakeKeys(rows * kBatches, 3);
  const std::vector<uint32_t> narrow(keys.begin(), keys.end());
  const size_t size = rows * bench::kFields;
  std::vector<uint32_t> cols(size);
  size_t batch = 0;
  for (auto _ : state) {
    std::copy_n(narrow.begin() + static_cast<ptrdiff_t>(batch * size), size, cols.begin());
    compact(cols);
    batch = (batch + 1) % kBatches;
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * size));
}

void BM_CompactBitmap(benchmark::State& state) {
  KeyCompactor compactor(bench::kNumFeatures);
  PodVector<uint64_t> keys;
  Run(state, [&](std::vector<uint32_t>& cols) { compactor.Compact(std::span(cols), keys); });
}
BENCHMARK(BM_CompactBitmap)->Arg(100)->Arg(1000)->Arg(4096)->Unit(benchmark::kMicrosecond);

void BM_CompactHash(benchmark::State& state) {
  KeyCompactor compactor(0);
  PodVector<uint64_t> keys;
  Run(state, [&](std::vector<uint32_t>& cols) { compactor.Compact(std::span(cols), keys); });
}
BENCHMARK(BM_CompactHash)->Arg(100)->Arg(1000)->Arg(4096)->Unit(benchmark::kMicrosecond);

template <typename Design>
void RunDesign(benchmark::State& state, Design design) {
  std::vector<uint64_t> keys;
  Run(state, [&](std::vector<uint32_t>& cols) { design.Compact(cols, keys); });
}
void BM_CompactSummaryBitmap(benchmark::State& state) {
  RunDesign(state, bench::SummaryBitmapCompactor(bench::kNumFeatures));
}
BENCHMARK(BM_CompactSummaryBitmap)->Arg(100)->Arg(1000)->Arg(4096)->Unit(benchmark::kMicrosecond);
void BM_CompactRadix(benchmark::State& state) { RunDesign(state, bench::RadixCompactor(26, 2)); }
BENCHMARK(BM_CompactRadix)->Arg(100)->Arg(1000)->Arg(4096)->Unit(benchmark::kMicrosecond);
void BM_CompactSort(benchmark::State& state) { RunDesign(state, bench::SortCompactor()); }
BENCHMARK(BM_CompactSort)->Arg(100)->Arg(1000)->Arg(4096)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace millrace::io
