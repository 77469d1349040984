// SPDX-License-Identifier: Apache-2.0
// What the model of the pipeline predicts from the spans of simulated runs, and what really happens
// in a simulation without the cause.

#include "tools/report/pipeline.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <string>

#include "tests/tools/report/simulated_run.h"
#include "tools/report/diagnosis.h"

namespace millrace::report {
namespace {

constexpr double kTolerance = 0.2;  // of the real gain

// A run with a random place of the bottleneck.
SimulatedRun GeneratedRun(uint64_t seed) {
  Random random(DeriveSeed(seed, 1, 1));
  const auto between = [&](double low, double high) {
    return low * std::pow(high / low, random.Uniform());
  };
  const auto chance = [&](double share) { return random.Uniform() < share; };
  SimulatedRun run;
  run.seed = seed;
  run.input_threads = 1 + static_cast<int>(random.Below(4));
  if (chance(0.7)) run.cores = 1 + static_cast<int>(random.Below(4));
  if (chance(0.5)) run.read = between(20, 4000);
  if (chance(0.4)) run.decompress = between(50, 4000);
  run.decode = between(100, 3000);
  if (chance(0.4)) run.split = between(50, 2000);
  run.compute = between(10, 300);
  if (chance(0.4)) {
    run.evaluate_every = 10 + static_cast<int>(random.Below(30));
    run.evaluate = between(2000, 100000);
  }
  if (chance(0.3)) {
    run.checkpoint_every = 10 + static_cast<int>(random.Below(30));
    run.checkpoint = between(2000, 100000);
  }
  if (chance(0.4)) {
    run.has_exchanges = true;
    run.overlapped = between(5, 100);
    run.send = between(1, 30);
    run.network = between(10, 400);
    run.server = between(5, 400);
    if (chance(0.5)) run.barrier = between(5, 300);
  }
  if (run.cores > 0 && chance(0.3)) run.others = 1 + static_cast<int>(random.Below(4));
  return run;
}

struct Comparison {
  double predicted, real;
  bool is_close() const { return std::abs(predicted / real - 1) <= kTolerance; }
};

TEST(PipelineTest, PredictionsAgreeWithWhatHappensWithoutTheCause) {
  constexpr uint64_t kRuns = 240;
  std::map<std::string, int> named;
  std::string misses;
  int wrong = 0, all = 0, close = 0;
  for (uint64_t seed = 1; seed <= kRuns; ++seed) {
    const SimulatedRun run = GeneratedRun(seed);
    const RunSimulation simulation(run);
    const Diagnosis diagnosis = DiagnoseRun(simulation.data());
    ++named[CauseName(diagnosis.cause)];
    for (const auto& [cause, predicted] : diagnosis.speedups) {
      const SimulatedRun without = run.Without(cause);
      const double real =
          without == run ? 1 : simulation.seconds() / RunSimulation(without).seconds();
      const Comparison comparison = {predicted, real};
      ++all;
      close += comparison.is_close();
      if (comparison.is_close()) continue;
      if (cause == diagnosis.cause) ++wrong;
      char line[200];
      std::snprintf(line, sizeof line,
                    "seed %llu, %s%s: predicted %.2f, really %.2f (%d input threads, %d cores, %d "
                    "others)\n",
                    static_cast<unsigned long long>(seed), CauseName(cause),
                    cause == diagnosis.cause ? " (named)" : "", predicted, comparison.real,
                    run.input_threads, run.cores, run.others);
      misses += line;
    }
  }
  RecordProperty("named_causes_off", wrong);
  RecordProperty("causes_close", close);
  std::printf("%d of %d predictions close, %d of %llu named causes off\n%s", close, all, wrong,
              static_cast<unsigned long long>(kRuns), misses.c_str());
  EXPECT_LE(wrong, static_cast<int>(kRuns) * 5 / 100);
  EXPECT_GE(close, all * 98 / 100);
  EXPECT_GE(named.size(), 9u);
}

}  // namespace
}  // namespace millrace::report
