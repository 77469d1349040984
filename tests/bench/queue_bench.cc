// SPDX-License-Identifier: Apache-2.0
// The whole input queue from page-cached files: read, CRC, decode, shuffle, batches of 100.
#include <benchmark/benchmark.h>

#include "io/queue/input_queue.h"
#include "tests/bench/bench_data.h"

namespace millrace::io {
namespace {

constexpr size_t kRows = 1000000;

void BM_Queue(benchmark::State& state) {
  InputOptions options;
  options.files = bench::MakeFiles(kRows, 8);
  options.rows.num_features = bench::kNumFeatures;
  options.compact = state.range(0) != 0;
  options.threads = static_cast<size_t>(state.range(1));
  options.shuffle_capacity = static_cast<size_t>(state.range(2));
  options.min_after_dequeue = options.shuffle_capacity / 2;
  double wait = 0;
  for (auto _ : state) {
    auto queue = InputQueue::Open(options);
    const CsrBatch* batch = nullptr;
    size_t rows = 0;
    while (*(*queue)->Next(batch)) rows += batch->rows();
    if (rows != kRows) state.SkipWithError("rows lost");
    wait += (*queue)->stats().caller_wait_seconds;
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kRows));
  state.counters["caller_wait_s"] = wait / static_cast<double>(state.iterations());
}
BENCHMARK(BM_Queue)
    ->ArgNames({"compact", "threads", "capacity"})
    ->Args({0, 1, 20000})
    ->Args({0, 2, 20000})
    ->Args({1, 1, 20000})
    ->Args({1, 2, 20000})
    ->Args({0, 2, 0})
    ->Args({0, 2, 1000000})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->MeasureProcessCPUTime();

}  // namespace
}  // namespace millrace::io
