// SPDX-License-Identifier: Apache-2.0
// Kernels, update rules and whole steps over batches of 39-hot rows out of 33,762,578 features, in
// memory.
#include <benchmark/benchmark.h>

#include <memory>

#include "io/batch/csr_batch.h"
#include "io/batch/key_compactor.h"
#include "sparse/kernels.h"
#include "sparse/local_store.h"
#include "tests/bench/bench_data.h"
#include "trainer/sparse/batch_learner.h"

namespace millrace {
namespace {

constexpr size_t kBatches = 3000;  // of 100 rows: more keys than any cache holds

io::CsrBatch MakeBatch(const std::vector<uint64_t>& keys, size_t begin, size_t rows,
                       io::KeyCompactor* compactor) {
  io::CsrBatch batch;
  batch.row_begin.assign(1, 0);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t f = 0; f < bench::kFields; ++f) {
      batch.cols.push_back(static_cast<uint32_t>(keys[(begin + r) * bench::kFields + f]));
    }
    batch.row_begin.push_back(static_cast<uint32_t>(batch.cols.size()));
    batch.labels.push_back((begin + r) % 4 == 0 ? 1.0f : 0.0f);
  }
  if (compactor) {
    compactor->Compact(batch.cols, batch.keys);
    batch.compacted = true;
  }
  return batch;
}

std::vector<io::CsrBatch> MakeBatches(size_t rows, size_t count, bool compact) {
  const std::vector<uint64_t> keys = bench::MakeKeys(rows * count, 9);
  io::KeyCompactor compactor(bench::kNumFeatures);
  std::vector<io::CsrBatch> batches;
  for (size_t b = 0; b < count; ++b)
    batches.push_back(MakeBatch(keys, b * rows, rows, compact ? &compactor : nullptr));
  return batches;
}

const sparse::Kernels* KernelsOf(int64_t kind) {
  if (kind == 0) return &sparse::PlainKernels();
  return kind == 1 ? &sparse::NativeKernels() : sparse::MklKernels();
}

void ReportRows(benchmark::State& state, size_t rows, const sparse::Kernels& kernels) {
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * rows));
  state.SetLabel(kernels.instructions);
}

void BM_Margins(benchmark::State& state) {
  const sparse::Kernels* kernels = KernelsOf(state.range(0));
  if (!kernels) return state.SkipWithError("built without MKL");
  const auto rows = static_cast<size_t>(state.range(1));
  const io::CsrBatch batch = std::move(MakeBatches(rows, 1, true)[0]);
  const std::vector<float> weights(batch.keys.size(), 0.1f);
  std::vector<float> margins(rows);
  for (auto _ : state) {
    kernels->margins(batch, weights, margins);
    benchmark::DoNotOptimize(margins.data());
  }
  ReportRows(state, rows, *kernels);
}
BENCHMARK(BM_Margins)
    ->ArgsProduct({{0, 1, 2}, {100, 1000, 4096}})
    ->ArgNames({"kernel", "rows"})
    ->Unit(benchmark::kMicrosecond);

void BM_Gradient(benchmark::State& state) {
  const sparse::Kernels* kernels = KernelsOf(state.range(0));
  if (!kernels) return state.SkipWithError("built without MKL");
  const auto rows = static_cast<size_t>(state.range(1));
  const io::CsrBatch batch = std::move(MakeBatches(rows, 1, true)[0]);
  const std::vector<float> residuals(rows, 0.1f);
  std::vector<float> gradient(batch.keys.size());
  for (auto _ : state) {
    kernels->gradient(batch, residuals, gradient);
    benchmark::DoNotOptimize(gradient.data());
  }
  ReportRows(state, rows, *kernels);
}
BENCHMARK(BM_Gradient)
    ->ArgsProduct({{0, 1, 2}, {100, 1000, 4096}})
    ->ArgNames({"kernel", "rows"})
    ->Unit(benchmark::kMicrosecond);

void BM_LossAndResiduals(benchmark::State& state) {
  const sparse::Kernels* kernels = KernelsOf(state.range(0));
  const size_t rows = 1000;
  std::vector<float> margins(rows), labels(rows), residuals(rows);
  for (size_t r = 0; r < rows; ++r) {
    margins[r] = static_cast<float>(r) / 100 - 5;
    labels[r] = r % 4 == 0 ? 1.0f : 0.0f;
  }
  for (auto _ : state)
    benchmark::DoNotOptimize(kernels->loss_and_residuals(margins, labels, {}, residuals));
  ReportRows(state, rows, *kernels);
}
BENCHMARK(BM_LossAndResiduals)->Arg(0)->Arg(1)->ArgNames({"kernel"})->Unit(benchmark::kMicrosecond);

// Training alone, from batches of 100 in memory: the direct way (1) and the compacted one (0).
void BM_Learn(benchmark::State& state) {
  const auto rule = static_cast<sparse::Rule>(state.range(0));
  const bool direct = state.range(1) != 0;
  const std::vector<io::CsrBatch> batches = MakeBatches(100, kBatches, !direct);
  auto store = sparse::LocalStore::Create({bench::kNumFeatures}, {.rule = rule});
  const auto learner = trainer::MakeLocalLearner(**store, sparse::NativeKernels(), direct);
  for (const io::CsrBatch& batch : batches)
    benchmark::DoNotOptimize(learner->Learn(batch).ok());  // fetches the pages
  size_t at = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(learner->Learn(batches[at]).ok());
    at = (at + 1) % kBatches;
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * 100));
  state.SetLabel(sparse::RuleName(rule));
}
BENCHMARK(BM_Learn)
    ->ArgsProduct({{0, 1, 2, 3}, {1, 0}})
    ->ArgNames({"rule", "direct"})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace millrace
