// SPDX-License-Identifier: Apache-2.0
// Diagnoses on traces whose truth is known.

#include "tools/report/diagnosis.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "profiler/resources.h"
#include "tests/tools/report/synthetic_run.h"

namespace millrace::report {
namespace {

struct StepTimes {  // microseconds
  double input = 0, compute = 0, send = 0, wait = 0, server = 0, barrier = 0;
  int straggler = -1;
  double total() const { return input + compute + send + wait; }
};

// `steps` equal steps of a worker, from `now` on.
void AddSteps(const StepTimes& t, int steps, double now, SyntheticTrace& trace) {
  for (int s = 0; s < steps; ++s) {
    trace.Span(1, "step", "step", now, t.total(), "\"rows\":100");
    double at = now;
    const auto part = [&](const char* name, const char* cat, double duration,
                          const std::string& args) {
      if (duration > 0) trace.Span(1, name, cat, at, duration, args);
      at += duration;
    };
    part("input_wait", "input", t.input, "");
    part("margins", "compute", t.compute, "\"rows\":100");
    part("exchange_send", "network", t.send, "\"bytes\":20000,\"keys\":3000");
    part("exchange_wait", "network", t.wait,
         "\"bytes\":12000,\"server_ns\":" + std::to_string(std::llround(t.server * 1e3)) +
             ",\"barrier_ns\":" + std::to_string(std::llround(t.barrier * 1e3)) +
             ",\"straggler\":" + std::to_string(t.straggler));
    now += t.total();
  }
}

SyntheticTrace Worker(const StepTimes& t, int steps) {
  SyntheticTrace trace;
  AddSteps(t, steps, 1000, trace);
  return trace;
}

class DiagnosisTest : public testing::Test {
 protected:
  Diagnosis Diagnose() {
    const Result<RunData> run = LoadRun(folder_.path());
    EXPECT_TRUE(run.ok()) << run.status().message();
    return DiagnoseRun(*run);
  }
  test::TemporaryFolder folder_;
};

TEST_F(DiagnosisTest, ComputeBoundRunIsNamed) {
  Worker({.input = 5, .compute = 90, .send = 1, .wait = 4}, 50).Write(folder_, "worker-0");
  const Diagnosis d = Diagnose();
  EXPECT_EQ(d.bottleneck, "compute");
  EXPECT_NEAR(d.share, 0.9, 1e-6);
  EXPECT_NEAR(d.speedup_without, 10, 1e-3);
}

TEST_F(DiagnosisTest, ComputeCannotBeFasterThanTheInputBesideIt) {
  SyntheticTrace trace = Worker({.compute = 100}, 50);
  for (int i = 0; i < 50; ++i) trace.Span(2, "decode", "input", 1000 + 100 * i, 40, "\"rows\":100");
  trace.Write(folder_, "worker-0");
  const Diagnosis d = Diagnose();
  EXPECT_EQ(d.bottleneck, "compute");
  EXPECT_NEAR(d.speedup_without, 2.5, 1e-3);
}

TEST_F(DiagnosisTest, ReadingTheTestDataIsNoInputOfSteps) {
  SyntheticTrace trace = Worker({.compute = 100}, 50);
  trace.Thread(2, "input");
  trace.Thread(3, "evaluation input");
  for (int i = 0; i < 50; ++i) {
    trace.Span(2, "decode", "input", 1000 + 100 * i, 40, "\"rows\":100");
    trace.Span(3, "decode", "input", 1000 + 100 * i, 99, "\"rows\":100");
  }
  trace.Write(folder_, "worker-0");
  const Diagnosis d = Diagnose();
  EXPECT_EQ(d.breakdown.input_threads, 1u);
  EXPECT_NEAR(d.speedup_without, 2.5, 1e-3);
}

TEST_F(DiagnosisTest, InputBoundRunTellsReadingFromDecoding) {
  SyntheticTrace trace = Worker({.input = 80, .compute = 20}, 50);
  for (int i = 0; i < 50; ++i) {
    trace.Span(2, "read_block", "disk", 1000 + 100 * i, 60, "\"bytes\":1000");
    trace.Span(2, "decode", "input", 1060 + 100 * i, 20, "\"rows\":100");
  }
  trace.Write(folder_, "worker-0");
  const Diagnosis d = Diagnose();
  EXPECT_EQ(d.bottleneck, "input");
  EXPECT_NEAR(d.share, 0.8, 1e-6);
  EXPECT_NEAR(d.breakdown[Part::kDisk], 50 * 60e-6, 1e-9);
  EXPECT_NEAR(d.breakdown[Part::kInput], 50 * 20e-6, 1e-9);
  EXPECT_NE(d.sentence.find("75 % of it the input threads read"), std::string::npos) << d.sentence;
}

TEST_F(DiagnosisTest, NetworkBoundRunIsNamedWithItsBytes) {
  for (const char* name : {"worker-0", "worker-1"}) {
    Worker({.compute = 20, .send = 30, .wait = 100, .server = 15, .barrier = 5, .straggler = 1}, 50)
        .Write(folder_, name);
  }
  const Diagnosis d = Diagnose();
  EXPECT_EQ(d.bottleneck, "network");
  EXPECT_NEAR(d.share, (30 + 100 - 20) / 150.0, 1e-6);
  EXPECT_NEAR(d.speedup_without, 150 / 40.0, 1e-3);
  EXPECT_NE(d.sentence.find("20 kB sent and 12 kB received"), std::string::npos) << d.sentence;
}

TEST_F(DiagnosisTest, ServerBoundRunIsNamedWithTheServersLoad) {
  Worker({.compute = 20, .send = 2, .wait = 100, .server = 90, .barrier = 2}, 50)
      .Write(folder_, "worker-0");
  SyntheticTrace server;
  for (int i = 0; i < 50; ++i) {
    server.Span(1, "serve_exchange", "server", 1022 + 122 * i, 92, "\"bytes\":20000");
    server.Span(1, "barrier_wait", "barrier", 1030 + 122 * i, 2, "\"worker\":0");
    server.Span(1, "apply", "server", 1040 + 122 * i, 70, "\"keys\":3000");
  }
  server.Write(folder_, "ps-0");
  const Diagnosis d = Diagnose();
  EXPECT_EQ(d.bottleneck, "server");
  EXPECT_NEAR(d.speedup_without, 122 / 32.0, 1e-3);
  EXPECT_NE(d.sentence.find("ps-0 busy 74 % of the time"), std::string::npos) << d.sentence;
}

TEST_F(DiagnosisTest, StragglerIsNamedNotItsComputing) {
  const StepTimes quick = {
      .compute = 30, .send = 1, .wait = 99, .server = 4, .barrier = 90, .straggler = 2};
  const StepTimes slow = {.compute = 120, .send = 1, .wait = 9, .server = 4};
  Worker(quick, 50).Write(folder_, "worker-0");
  Worker(quick, 50).Write(folder_, "worker-1");
  Worker(slow, 50).Write(folder_, "worker-2");
  const Diagnosis d = Diagnose();
  EXPECT_EQ(d.bottleneck, "barrier");
  EXPECT_EQ(d.straggler, "worker-2");
  EXPECT_TRUE(d.sentence.starts_with("Straggler-bound")) << d.sentence;
  EXPECT_NEAR(d.speedup_without, 130 / 40.0, 1e-3);
}

TEST_F(DiagnosisTest, TimeThatOverlapsWithWorkSavesNothing) {
  // An exchange of 102 us, 20 of them the server's, overlaps with 30 us of computing: without the
  // network nothing of it would be seen.
  SyntheticTrace trace;
  for (int s = 0; s < 50; ++s) {
    const double now = 1000 + 102 * s;
    trace.Span(1, "step", "step", now, 102, "\"rows\":100");
    trace.Span(1, "exchange_send", "network", now, 2, "\"bytes\":10,\"keys\":3");
    trace.Span(1, "margins", "compute", now + 2, 30, "\"rows\":100");
    trace.Span(1, "exchange_wait", "network", now + 32, 70,
               "\"bytes\":10,\"server_ns\":20000,\"barrier_ns\":0");
  }
  trace.Write(folder_, "worker-0");
  EXPECT_NEAR(Diagnose().speedup_without, 102 / 30.0, 1e-3);
}

TEST_F(DiagnosisTest, ServerThatWaitsStillHasItsWork) {
  Worker({.compute = 20, .send = 2, .wait = 100, .server = 90}, 50).Write(folder_, "worker-0");
  SyntheticTrace server;
  for (int i = 0; i < 50; ++i) {
    server.Span(1, "serve_exchange", "server", 1022 + 122 * i, 90, "\"bytes\":20000");
    server.Span(1, "apply", "server", 1080 + 122 * i, 18, "\"keys\":3000");
    server.Span(1, "push", "server", 1081 + 122 * i, 16, "\"keys\":3000");
  }
  server.Write(folder_, "ps-0");
  const Diagnosis d = Diagnose();
  EXPECT_EQ(d.bottleneck, "server");
  EXPECT_NEAR(d.speedup_without, 122 / (32.0 + 18), 1e-3);
  EXPECT_NE(d.sentence.find("with ops in 20 % of it"), std::string::npos) << d.sentence;
}

TEST_F(DiagnosisTest, WithoutTheNetworkTheInputSetsThePace) {
  SyntheticTrace trace = Worker({.compute = 20, .send = 30, .wait = 150, .server = 10}, 50);
  for (int i = 0; i < 50; ++i) trace.Span(2, "decode", "input", 1000 + 200 * i, 80, "\"rows\":1");
  trace.Write(folder_, "worker-0");
  const Diagnosis d = Diagnose();
  EXPECT_EQ(d.bottleneck, "network");
  EXPECT_NEAR(d.speedup_without, 200 / 80.0, 1e-3);
}

TEST_F(DiagnosisTest, WithoutAStragglerWaitsAreAsLongAsForOthers) {
  // In every second step worker 2 is late by 200 us; else worker 1 is last, by 20.
  for (int w = 0; w < 2; ++w) {
    SyntheticTrace trace;
    double now = 1000;
    for (int s = 0; s < 50; ++s) {
      const bool late = s % 2 == 1;
      const int barrier = late ? 220 : 20, last = late ? 2 : 1;
      trace.Span(1, "step", "step", now, 30 + barrier, "\"rows\":100");
      trace.Span(1, "exchange_send", "network", now, 5, "\"bytes\":10,\"keys\":3");
      trace.Span(1, "exchange_wait", "network", now + 5, 5 + barrier,
                 "\"bytes\":10,\"server_ns\":1000,\"barrier_ns\":" +
                     std::to_string(barrier * 1000) + ",\"straggler\":" + std::to_string(last));
      now += 30 + barrier;
    }
    trace.Write(folder_, "worker-" + std::to_string(w));
  }
  const Diagnosis d = Diagnose();
  EXPECT_EQ(d.straggler, "worker-2");
  EXPECT_NEAR(d.speedup_without, (25 * 50 + 25 * 250) / (50 * 50.0), 1e-3);
}

TEST_F(DiagnosisTest, WaitingInTurnHasNoStraggler) {
  for (int w = 0; w < 3; ++w) {
    Worker({.compute = 20, .wait = 80, .barrier = 75, .straggler = (w + 1) % 3}, 50)
        .Write(folder_, "worker-" + std::to_string(w));
  }
  const Diagnosis d = Diagnose();
  EXPECT_EQ(d.bottleneck, "barrier");
  EXPECT_EQ(d.straggler, "");
}

TEST_F(DiagnosisTest, WorkInsideTestsAndCheckpointsBelongsToThem) {
  SyntheticTrace trace = Worker({.compute = 100}, 10);
  trace.Span(1, "evaluate", "evaluation", 2000, 3000);
  trace.Span(1, "margins", "compute", 2100, 2500);
  trace.Span(1, "input_wait", "input", 4700, 100);
  trace.Span(1, "checkpoint", "checkpoint", 5000, 500);
  trace.Write(folder_, "worker-0");
  const Diagnosis d = Diagnose();
  EXPECT_EQ(d.bottleneck, "evaluation");
  EXPECT_NEAR(d.breakdown[Part::kEvaluation], 3000e-6, 1e-9);
  EXPECT_NEAR(d.breakdown[Part::kCheckpoint], 500e-6, 1e-9);
  EXPECT_NEAR(d.breakdown[Part::kCompute], 1000e-6, 1e-9);
  EXPECT_NEAR(d.breakdown[Part::kInput], 0, 1e-12);
}

// In the first step each worker waits for the server, which allocates memory, and for the other
// workers.
TEST_F(DiagnosisTest, LongFirstStepIsWarmUp) {
  const StepTimes first = {
      .compute = 50000, .wait = 90000, .server = 60000, .barrier = 29000, .straggler = 1};
  const StepTimes rest = {.compute = 80, .wait = 20, .server = 5, .barrier = 5, .straggler = 1};
  for (const char* name : {"worker-0", "worker-1"}) {
    SyntheticTrace trace;
    AddSteps(first, 1, 1000, trace);
    AddSteps(rest, 100, 1000 + first.total(), trace);
    trace.Write(folder_, name);
  }
  const Diagnosis d = Diagnose();
  EXPECT_EQ(d.bottleneck, "compute") << d.sentence;
  EXPECT_EQ(d.straggler, "");
  EXPECT_NEAR(d.share, 0.8, 1e-6);
  EXPECT_NE(d.sentence.find("computing; margins 80 %."), std::string::npos) << d.sentence;
  EXPECT_EQ(d.workers[0].warm_up_steps, 1u);
  ASSERT_FALSE(d.evidence.empty());
  EXPECT_EQ(d.evidence[0],
            "worker-0: excludes the warm-up: the first step (140.0 ms), which allocates memory");
}

bool HasLine(const Diagnosis& d, const std::string& part) {
  return std::any_of(d.evidence.begin(), d.evidence.end(),
                     [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

// Waits for input while the input threads are idle are nobody's pace.
TEST_F(DiagnosisTest, PaceAgreesWithTheBottleneck) {
  struct Case {
    StepTimes step;
    double decode;  // of one input thread, per step
    std::string bottleneck, pace;
  };
  for (const Case& c : {Case{{.input = 60, .compute = 40}, 20, "input", "neither sets the pace"},
                        Case{{.input = 60, .compute = 40}, 98, "input", "input threads set"},
                        Case{{.input = 2, .compute = 98}, 20, "compute", "training thread sets"}}) {
    SCOPED_TRACE(c.pace);
    SyntheticTrace trace = Worker(c.step, 50);
    for (int i = 0; i < 50; ++i) trace.Span(2, "decode", "input", 1000 + 100 * i, c.decode, "");
    trace.Write(folder_, "worker-0");
    const Diagnosis d = Diagnose();
    EXPECT_EQ(d.bottleneck, c.bottleneck);
    EXPECT_TRUE(HasLine(d, c.pace)) << d.evidence.front();
  }
}

// The first step of a window from step 0 waits until the shuffle buffer is full.
TEST_F(DiagnosisTest, StartUpIsNotTakenForTheRun) {
  const auto diagnose = [&](const std::string& window, int steps) {
    SyntheticTrace trace;
    AddSteps({.input = 80000, .compute = 100}, 1, 1000, trace);
    AddSteps({.compute = 100}, 400, 81100, trace);
    trace.SetSteps(steps);
    trace.Write(folder_, "worker-0");
    test::WriteFile(folder_ / "run.json",
                    "{\"status\":\"finished\",\"steps\":" + std::to_string(steps) +
                        ",\"flags\":{\"profile_steps\":\"" + window + "\"}}");
    return Diagnose();
  };
  const Diagnosis first = diagnose("0:400", 20000);
  EXPECT_EQ(first.breakdown.start_up_steps, 1u);
  EXPECT_EQ(first.bottleneck, "compute");
  EXPECT_NEAR(first.breakdown.total_s, 400 * 100e-6, 1e-9);
  EXPECT_NE(first.sentence.find("67 % of the traced time was start-up (the first step), which is "
                                "left out here; --profile_steps=10000:11000 shows the middle of "
                                "the run."),
            std::string::npos)
      << first.sentence;
  EXPECT_NE(diagnose("0:400", 401).sentence.find("the run is too short to tell"),
            std::string::npos);
  EXPECT_EQ(diagnose("500:900", 20000).sentence.find("start-up"), std::string::npos);
}

// A run that reads gzip: the input threads decompress inside of reading.
TEST_F(DiagnosisTest, DecompressionInsideOfReadingIsNamed) {
  SyntheticTrace trace = Worker({.input = 80, .compute = 20}, 50);
  for (int i = 0; i < 50; ++i) {
    trace.Span(2, "read_block", "disk", 1000 + 100 * i, 75, "\"bytes\":1000");
    trace.Span(2, "decompress", "input", 1001 + 100 * i, 73, "");
    trace.Span(2, "read_compressed", "disk", 1002 + 100 * i, 3, "");
    trace.Span(2, "decode", "input", 1075 + 100 * i, 25, "\"rows\":100");
  }
  trace.Write(folder_, "worker-0");
  const Diagnosis d = Diagnose();
  EXPECT_EQ(d.bottleneck, "input");
  EXPECT_EQ(d.cause, Cause::kDecompression);
  EXPECT_NEAR(d.breakdown.input_busy_s[Cause::kDecompression], 50 * 70e-6, 1e-9);
  EXPECT_NEAR(d.breakdown.input_busy_s[Cause::kReading], 50 * 5e-6, 1e-9);
  EXPECT_NEAR(d.speedup_without, 100 / 30.0, 0.05);
  ASSERT_FALSE(d.advice.empty());
  EXPECT_NE(d.advice[0].text.find("uncompressed"), std::string::npos);
  EXPECT_NE(d.sentence.find("decompression takes 70 % of the input threads' work"),
            std::string::npos)
      << d.sentence;
}

// Later evaluations of this run take longer; of ten, the last one stays.
TEST_F(DiagnosisTest, AdviceNamesTheFlagWithItsGain) {
  SyntheticTrace trace;
  double now = 1000, left = 0;
  for (int e = 0; e < 20; ++e) {
    AddSteps({.compute = 100}, 10, now, trace);
    now += 1000;
    const double evaluation = 1000 + 500 * e;
    trace.Span(1, "evaluate", "evaluation", now, evaluation);
    trace.Span(1, "margins", "compute", now + 1, evaluation - 2);
    now += evaluation;
    if (e % 10 == 9) left += evaluation;
  }
  trace.Write(folder_, "worker-0");
  test::WriteFile(folder_ / "run.json", R"({"flags":{"eval_every":"1000"}})");
  const Diagnosis d = Diagnose();
  EXPECT_EQ(d.cause, Cause::kEvaluation);
  EXPECT_NEAR(d.speedup_without, (now - 1000) / 20000, 1e-6);
  ASSERT_FALSE(d.advice.empty());
  EXPECT_EQ(d.advice[0].text, "--eval_every=10000");
  EXPECT_NEAR(d.advice[0].gain, (now - 1000) / (20000 + left), 1e-6);
}

TEST_F(DiagnosisTest, LongStepsLaterOnAreNoWarmUp) {
  SyntheticTrace trace;
  const StepTimes usual = {.compute = 100}, slow = {.input = 50000, .compute = 100};
  AddSteps(usual, 5, 1000, trace);
  AddSteps(slow, 1, 1000 + 5 * usual.total(), trace);
  AddSteps(usual, 95, 1000 + 5 * usual.total() + slow.total(), trace);
  trace.Write(folder_, "worker-0");
  EXPECT_EQ(Diagnose().bottleneck, "input");
}

TEST_F(DiagnosisTest, WindowOfStepsIsStated) {
  SyntheticTrace trace;
  AddSteps({.compute = 9000}, 1, 1000, trace);  // no warm-up: others came before it
  AddSteps({.compute = 100}, 20, 10000, trace);
  trace.SetSteps(2000);
  trace.Write(folder_, "worker-0");
  test::WriteFile(folder_ / "run.json", R"({"flags":{"profile_steps":"100:120"}})");
  const Diagnosis d = Diagnose();
  EXPECT_EQ(d.breakdown.warm_up_steps, 0u);
  ASSERT_FALSE(d.evidence.empty());
  EXPECT_EQ(
      d.evidence[0],
      "worker-0: traced 21 of 2,000 steps (--profile_steps=100:120); the diagnosis covers these");
}

TEST_F(DiagnosisTest, WindowThatWasNotReachedIsNamed) {
  SyntheticTrace trace;
  trace.SetSteps(326);
  trace.Write(folder_, "worker-0");
  test::WriteFile(folder_ / "run.json", R"({"flags":{"profile_steps":"50000:50010"}})");
  EXPECT_EQ(Diagnose().sentence,
            "No step was traced: the window --profile_steps=50000:50010 was not reached: the run "
            "has 326 steps.");
}

// A worker and a server use 0.3 and 0.2 cores of a host with 2; `busy` cores are busy in total.
void WriteSamples(const test::TemporaryFolder& folder, double busy) {
  const std::pair<const char*, double> processes[] = {{"worker-0", 0.3}, {"ps-0", 0.2}};
  for (const auto& [name, cores] : processes) {
    profiler::Resources r;
    std::string csv = profiler::ResourcesCsvHeader();
    for (int second = 0; second < 4; ++second) {
      r.steady_ns = second * 1'000'000'000LL;
      r.user_s_total = cores * second;
      r.host_busy_s_total = 500 + busy * second;
      r.host_idle_s_total = 900 + (2 - busy) * second;
      csv += profiler::ResourcesCsvLine(r, 0);
    }
    test::WriteFile(folder / ("resources-" + std::string(name) + ".csv"), csv);
  }
}

TEST_F(DiagnosisTest, CoresThatOtherProcessesUsedAreStated) {
  Worker({.compute = 50000}, 50).Write(folder_, "worker-0");
  SyntheticTrace().Write(folder_, "ps-0");
  const auto line = [&](double busy) {
    WriteSamples(folder_, busy);
    for (const std::string& text : Diagnose().evidence) {
      if (text.find("other processes") != std::string::npos) return text;
    }
    return std::string();
  };
  EXPECT_EQ(line(2),
            "CPU: 1.5 of 2 cores were busy with other processes on average; the run had "
            "the rest");
  EXPECT_EQ(line(0.9), "");
}

TEST_F(DiagnosisTest, PartsSumUpToTheTotal) {
  SyntheticTrace trace =
      Worker({.input = 10, .compute = 20, .send = 5, .wait = 40, .server = 10, .barrier = 12}, 30);
  trace.Span(1, "evaluate", "evaluation", 9000, 300);
  trace.Write(folder_, "worker-0");
  const Diagnosis d = Diagnose();
  double sum = 0;
  for (const double seconds : d.breakdown.seconds) sum += seconds;
  EXPECT_NEAR(sum, d.breakdown.total_s, 1e-9);
}

// A step of a net of 1000 parameters that sends `sent` bytes of blocks and receives 4000.
void WriteNet(const test::TemporaryFolder& folder, const std::string& flags, int sent) {
  SyntheticTrace trace;
  trace.Span(1, "step", "step", 1000, 100, "\"rows\":100");
  trace.Span(1, "exchange_send", "network", 1010, 1, "\"bytes\":0,\"keys\":0");
  trace.Span(1, "exchange_wait", "network", 1020, 1, "\"bytes\":0");
  trace.Span(2, "push_dense", "network", 1005, 5, "\"bytes\":" + std::to_string(sent));
  trace.Span(2, "pull_dense", "network", 1030, 5, "\"bytes\":4000");
  trace.Write(folder, "worker-0");
  test::WriteFile(folder / "run.json", "{\"flags\":{" + flags + "}}");
  test::WriteFile(folder / "graph.dot",
                  "digraph \"net\" {\n  \"a\" [label=\"a\\nfc -> 10\\n1000 parameters\"];\n}\n");
}

TEST_F(DiagnosisTest, BytesOfANetArePredictedByTheFormatOfTheRun) {
  const auto line = [&](const std::string& flags, int sent) {
    WriteNet(folder_, flags, sent);
    for (const std::string& text : Diagnose().evidence) {
      if (text.starts_with("bytes per exchange")) return text;
    }
    return std::string();
  };
  EXPECT_EQ(line("", 4000),
            "bytes per exchange: predicted 8 kB (1,000 parameters; 4 bytes each up, 4 down), "
            "measured 4 kB sent + 4 kB received = 1.00 of it");
  EXPECT_EQ(line(R"("wire_bf16":"true")", 2000),
            "bytes per exchange: predicted 6 kB (1,000 parameters; 2 bytes each up, 4 down), "
            "measured 2 kB sent + 4 kB received = 1.00 of it");
  EXPECT_NE(line(R"("wire_bf16":"true")", 4000).find("= 1.33 of it"), std::string::npos);
  EXPECT_EQ(line(R"("wire_zstd":"true")", 1000),
            "bytes per exchange: uncompressed 8 kB (1,000 parameters; 4 bytes each up, 4 down), "
            "measured 1 kB sent + 4 kB received = 0.62 of it");
}

TEST_F(DiagnosisTest, RunWithoutStepsSaysSo) {
  test::WriteFile(folder_ / "run.json", "{\"status\":\"finished\",\"flags\":{\"a\":\"<b>\"}}");
  EXPECT_EQ(Diagnose().bottleneck, "unknown");
}

}  // namespace
}  // namespace millrace::report
