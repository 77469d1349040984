// SPDX-License-Identifier: Apache-2.0
// What --profile costs: profile_overhead [QUADS STEPS CONTROL FILE...]
//
// One training run (SGD, batch 100, two input threads, 33,762,578 features, samples of the
// resources) in which tracing is on for a block of STEPS steps and off for another, so that a
// machine whose speed changes changes both. Four blocks are a quad, in the order on-off-off-on or
// off-on-on-off, by chance; it gives one ratio, of the time with tracing to the time without. The
// buffers take fresh memory all the while, as those of a run do. With CONTROL = 1 tracing stays
// off in all blocks: what is stated then is the experiment's own error.

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "io/base/random.h"
#include "profiler/clock.h"
#include "profiler/session.h"
#include "profiler/trace.h"
#include "tests/bench/bench_data.h"
#include "trainer/sparse/sparse_trainer.h"

namespace millrace {
namespace {

constexpr size_t kWarmUpSteps = 20000;  // fetch the model's pages
constexpr size_t kBlocksPerQuad = 4;
constexpr size_t kBootstraps = 2000;

double CpuSeconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Ratios {
  std::vector<double> time, cpu;  // of each quad, with tracing to without
};

// Switches tracing at the end of blocks and takes their times.
class Blocks {
 public:
  Blocks(size_t quads, size_t steps, bool control)
      : quads_(quads), steps_(steps), control_(control), random_(1) {}

  // The training loop's clock, which it reads once a step.
  double AfterStep() {
    const double now_s = NowSeconds();
    ++step_;
    if (step_ >= kWarmUpSteps && (step_ - kWarmUpSteps) % steps_ == 0 && !done()) Switch(now_s);
    return now_s;
  }
  bool done() const { return ratios_.time.size() == quads_; }
  const Ratios& ratios() const { return ratios_; }

 private:
  struct Times {
    double time = 0, cpu = 0;
  };

  bool IsOn() const { return (block_ == 0 || block_ == kBlocksPerQuad - 1) == outer_on_; }

  void Switch(double now_s) {
    const double cpu_s = CpuSeconds();
    if (step_ > kWarmUpSteps) EndBlock({now_s - begin_.time, cpu_s - begin_.cpu});
    if (block_ == 0) outer_on_ = (random_.Next() & 1) != 0;
    profiler::internal::tracing.store(IsOn() && !control_ && !done());
    begin_ = {NowSeconds(), CpuSeconds()};
  }

  void EndBlock(const Times& block) {
    Times& sum = IsOn() ? on_ : off_;
    sum.time += block.time;
    sum.cpu += block.cpu;
    block_ = (block_ + 1) % kBlocksPerQuad;
    if (block_ != 0) return;
    ratios_.time.push_back(on_.time / off_.time);
    ratios_.cpu.push_back(on_.cpu / off_.cpu);
    on_ = off_ = {};
  }

  const size_t quads_, steps_;
  const bool control_;
  Random random_;
  size_t step_ = 0;
  size_t block_ = 0;  // of the quad
  bool outer_on_ = false;
  Times begin_, on_, off_;
  Ratios ratios_;
};

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Unlike the median, it has what strikes few blocks, as fetching fresh memory does.
double Mean(std::vector<double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// With the range that has it at 95 % of all draws of as many quads out of those.
void PrintEstimate(const char* what, const std::vector<double>& ratios,
                   double (*estimate)(std::vector<double>)) {
  Random random(2);
  std::vector<double> estimates, drawn(ratios.size());
  for (size_t b = 0; b < kBootstraps; ++b) {
    for (double& value : drawn) value = ratios[random.Next() % ratios.size()];
    estimates.push_back(estimate(drawn));
  }
  std::sort(estimates.begin(), estimates.end());
  const auto percent = [](double ratio) { return 100 * (ratio - 1); };
  std::printf("%-24s %+.2f %% (%+.2f to %+.2f)\n", what, percent(estimate(ratios)),
              percent(estimates[kBootstraps / 40]),
              percent(estimates[kBootstraps - kBootstraps / 40 - 1]));
}

trainer::TrainOptions Options(const std::vector<std::string>& files) {
  trainer::TrainOptions options;
  options.train.files = files;
  options.train.epochs = 1 << 30;
  options.train.rows.num_features = bench::kNumFeatures;
  options.shape.num_features = bench::kNumFeatures;
  options.update.rule = sparse::Rule::kSgd;
  return options;
}

int Fail(const std::string& error) {
  std::fprintf(stderr, "profile_overhead: %s\n", error.c_str());
  return 1;
}

int Measure(size_t quads, size_t steps, bool control, const std::vector<std::string>& files) {
  Blocks blocks(quads, steps, control);
  trainer::TrainObserver observer;
  observer.now_s = [&] { return blocks.AfterStep(); };
  observer.should_stop = [&] { return blocks.done(); };
  auto trainer = trainer::SparseTrainer::Create(Options(files), observer);
  if (!trainer.ok()) return Fail(trainer.status().message());
  const std::string samples = "/tmp/profile_overhead-" + std::to_string(::getpid()) + ".csv";
  std::string error;
  auto sampler = profiler::ResourceSampler::Start(samples, 200, error);
  if (!sampler) return Fail(error);
  // Room for all that the blocks record: a run's buffers are not full, either.
  profiler::StartTracing({.max_spans_per_thread = size_t{1} << 26, .max_bytes = size_t{4} << 30});
  profiler::internal::tracing.store(false);
  const auto summary = (*trainer)->Run();
  sampler.reset();
  std::remove(samples.c_str());
  if (!summary.ok()) return Fail(summary.status().message());
  const auto measured_steps = static_cast<double>(kBlocksPerQuad * quads * steps);
  std::printf("%zu quads of 4 blocks of %zu steps, %.0f steps in all, %.1f M examples/s%s\n", quads,
              steps, measured_steps,
              static_cast<double>(summary->new_examples) / summary->seconds * 1e-6,
              control ? "; control: tracing off in all" : "");
  PrintEstimate("time, mean of quads", blocks.ratios().time, Mean);
  PrintEstimate("time, median", blocks.ratios().time, Median);
  PrintEstimate("CPU time, mean", blocks.ratios().cpu, Mean);
  PrintEstimate("CPU time, median", blocks.ratios().cpu, Median);
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  constexpr size_t kRows = 100000;  // where no files are given
  const auto number = [&](int i, size_t otherwise) {
    return argc > i ? std::strtoull(argv[i], nullptr, 10) : otherwise;
  };
  const std::vector<std::string> files(argv + std::min(argc, 4), argv + argc);
  return millrace::Measure(number(1, 10), number(2, 100), number(3, 0) != 0,
                           files.empty() ? millrace::bench::MakeFiles(kRows, 4) : files);
}
