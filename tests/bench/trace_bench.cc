// SPDX-License-Identifier: Apache-2.0
// What a span costs, off and on.

#include <benchmark/benchmark.h>

#include "profiler/resources.h"
#include "profiler/trace.h"

namespace millrace::profiler {
namespace {

constexpr size_t kSpans = 1 << 16;  // recorded before the buffer is started afresh

void Spans(benchmark::State& state) {
  int64_t rows = 0;
  for (auto _ : state) {
    TRACE_SCOPE("bench", Cat::kCompute, {.rows = ++rows, .nnz = 2});
    benchmark::DoNotOptimize(rows);
  }
}

void BM_SpanOff(benchmark::State& state) {
  StopTracing();
  Spans(state);
}
BENCHMARK(BM_SpanOff);

void BM_SpanOn(benchmark::State& state) {
  StartTracing({.max_spans_per_thread = kSpans});
  Spans(state);
  StopTracing();
}
BENCHMARK(BM_SpanOn)->Iterations(kSpans)->Repetitions(20)->ReportAggregatesOnly();

void BM_Ticks(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(internal::NowTicks());
}
BENCHMARK(BM_Ticks);

void BM_Clock(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(NowNs());
}
BENCHMARK(BM_Clock);

void BM_ResourceSample(benchmark::State& state) {
  ResourceReader reader;
  for (auto _ : state) benchmark::DoNotOptimize(ResourcesCsvLine(reader.Read(), 0));
}
BENCHMARK(BM_ResourceSample);

}  // namespace
}  // namespace millrace::profiler
