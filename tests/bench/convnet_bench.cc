// SPDX-License-Identifier: Apache-2.0
// Training steps of the nets, images in memory: forward, backward and update. The steps go through
// several batches, as training does.
//
//   build/bench/convnet_bench --benchmark_filter=lenet
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include "convnets/net/net.h"
#include "io/base/random.h"
#include "sparse/local_dense_store.h"

namespace millrace::convnets {
namespace {

using sparse::DenseRule;

// Random images: 32 batches, of AlexNet's large ones 2, as on PyTorch's side.
class Batches {
 public:
  Batches(const NetSpec& spec, size_t batch_size)
      : count_(spec.input.size() > 100'000 ? 2 : 32),
        image_(spec.input.size()),
        batch_size_(batch_size),
        pixels_(count_ * batch_size * image_),
        labels_(count_ * batch_size) {
    Random random(1);
    for (float& x : pixels_.span()) x = static_cast<float>(random.Uniform());
    for (int32_t& label : labels_) label = static_cast<int32_t>(random.Below(spec.classes()));
  }
  Batch operator[](uint64_t step) const {
    const size_t first = step % count_ * batch_size_;
    return {pixels_.span().subspan(first * image_, batch_size_ * image_),
            std::span(labels_).subspan(first, batch_size_)};
  }

 private:
  const size_t count_, image_, batch_size_;
  HugeArray<float> pixels_;
  std::vector<int32_t> labels_;
};

void Step(benchmark::State& state, const char* name, DenseRule rule, const char* engine) {
  const auto batch_size = static_cast<size_t>(state.range(0));
  const auto threads = static_cast<size_t>(state.range(1));
  const NetSpec spec = *MakeNet({.name = name});
  Params params(spec);
  params.Initialize(Init::kHe, 1);
  auto net = MakeEngine(engine, spec, params, {.max_batch = batch_size, .threads = threads});
  if (!net.ok()) return state.SkipWithError(net.status().message().c_str());
  sparse::LocalDenseStore store(
      {.rule = rule}, [&](size_t size, const auto& work) { (*net)->ParallelFor(size, work); });
  if (!store.Init(params.all()).ok()) return state.SkipWithError("store");
  const Batches batches(spec, batch_size);
  uint64_t step = 0;
  const auto learn = [&] {
    ++step;
    return (*net)->ComputeGradients(
        batches[step], step, [&](size_t p, std::span<const float> g) { return store.Push(p, g); });
  };
  if (!learn().ok()) return state.SkipWithError("first step");  // pages in what it needs
  const uint64_t before = step;
  for (auto _ : state) {
    const auto outcome = learn();
    if (!outcome.ok()) return state.SkipWithError(outcome.status().message().c_str());
  }
  state.SetItemsProcessed(static_cast<int64_t>((step - before) * batch_size));
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  state.counters["peak_MB"] = static_cast<double>(usage.ru_maxrss) / 1024;
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
    ->Iterations(3)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace millrace::convnets
