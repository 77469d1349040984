// SPDX-License-Identifier: Apache-2.0
// CRC-32C at the sizes that matter: a length field, a record, a large block.
#include <benchmark/benchmark.h>

#include <string>

#include "io/base/crc32c.h"

namespace millrace::io {
namespace {

void BM_Crc32c(benchmark::State& state) {
  const auto level = static_cast<CpuLevel>(state.range(0));
  if (level > DetectCpuLevel()) {
    state.SkipWithError("this processor lacks the instructions");
    return;
  }
  const auto crc = internal::Crc32cFor(level);
  const std::string data(static_cast<size_t>(state.range(1)), 'x');
  for (auto _ : state) benchmark::DoNotOptimize(crc(data.data(), data.size(), 0));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * data.size()));
  state.SetLabel(CpuLevelName(level));
}
BENCHMARK(BM_Crc32c)->ArgsProduct({{0, 1}, {8, 355, 4096, 1 << 20}});

}  // namespace
}  // namespace millrace::io
