// Training steps of the nets, images in memory: forward, backward and update.
//
//   build/bench/convnet_bench --benchmark_filter=lenet
#include <benchmark/benchmark.h>

#include "convnets/net/net.h"
#include "io/base/random.h"
#include "sparse/local_dense_store.h"

namespace millrace::convnets {
namespace {

using sparse::DenseRule;

void Step(benchmark::State& state, const char* name, DenseRule rule, const char* engine) {
  const auto batch_size = static_cast<size_t>(state.range(0));
  const auto threads = static_cast<size_t>(state.range(1));
  const NetSpec spec = *MakeNet({.name = name});
  Params params(spec);
  params.Initialize(Init::kHe, 1);
  auto net = MakeEngine(engine, spec, params, {.max_batch = batch_size, .threads = threads});
  if (!net.ok()) return state.SkipWithError(net.status().message().c_str());
  sparse::LocalDenseStore store({.rule = rule},
                                [&](size_t size, const auto& work) { (*net)->Spread(size, work); });
  if (!store.Init(params.all()).ok()) return state.SkipWithError("store");
  io::Random random(1);
  io::HugeArray<float> pixels(batch_size * spec.input.size());
  for (float& x : pixels.span()) x = static_cast<float>(random.Uniform());
  std::vector<int32_t> labels(batch_size);
  for (int32_t& label : labels) label = static_cast<int32_t>(random.Below(spec.classes()));
  uint64_t step = 0;
  for (auto _ : state) {
    const auto outcome =
        (*net)->Learn({pixels.span(), labels}, ++step,
                      [&](size_t p, std::span<const float> g) { return store.Push(p, g); });
    if (!outcome.ok()) return state.SkipWithError(outcome.status().message().c_str());
  }
  state.SetItemsProcessed(static_cast<int64_t>(step * batch_size));
}

BENCHMARK_CAPTURE(Step, softmax, "softmax", DenseRule::kSgd, "auto")
    ->Args({128, 1})
    ->Args({128, 2})
    ->UseRealTime();
BENCHMARK_CAPTURE(Step, lenet, "lenet", DenseRule::kAdam, "auto")
    ->Args({64, 1})
    ->Args({64, 2})
    ->Args({512, 2})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Step, lenet_onednn, "lenet", DenseRule::kAdam, "onednn")
    ->Args({64, 2})
    ->Args({512, 2})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Step, alexnet, "alexnet", DenseRule::kMomentum, "auto")
    ->Args({64, 2})
    ->Args({128, 2})
    ->Iterations(4)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace millrace::convnets
