// SPDX-License-Identifier: Apache-2.0
#include "tools/report/diagnosis.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace millrace::report {
namespace {

// One worker is the straggler if it causes this share of all barrier waits.
constexpr double kStragglerShare = 0.6;

// The worker that causes most of the barrier waits; -1 if no single one does.
int64_t FindStraggler(const StepBreakdown& mean) {
  double sum = 0, most = 0;
  int64_t worker = -1;
  for (const auto& [who, waits] : mean.barriers) {
    sum += waits.seconds;
    if (waits.seconds > most) most = waits.seconds, worker = who;
  }
  return most < kStragglerShare * sum ? -1 : worker;
}

std::vector<StepBreakdown> Others(const std::vector<StepBreakdown>& workers,
                                  const std::string& straggler) {
  std::vector<StepBreakdown> others;
  for (const StepBreakdown& breakdown : workers) {
    if (breakdown.process != straggler) others.push_back(breakdown);
  }
  return others;
}

}  // namespace

Bottleneck LargestPart(const StepBreakdown& breakdown) {
  const Bottleneck all[] = {{"input", breakdown.input_s()},
                            {"compute", breakdown[Part::kCompute]},
                            {"network", breakdown[Part::kNetwork]},
                            {"server", breakdown[Part::kServer]},
                            {"barrier", breakdown[Part::kBarrier]},
                            {"evaluation", breakdown[Part::kEvaluation]},
                            {"checkpoint", breakdown[Part::kCheckpoint]}};
  return *std::max_element(
      std::begin(all), std::end(all),
      [](const Bottleneck& a, const Bottleneck& b) { return a.seconds < b.seconds; });
}

std::vector<ServerLoad> ServerLoads(const RunData& run) {
  const int64_t warm_ns = WarmUpEndNs(run);
  const uint32_t barrier = run.names.Find("barrier_wait");
  std::vector<ServerLoad> loads;
  for (const ProcessData& process : run.processes) {
    if (!process.is_server()) continue;
    ServerLoad load{.process = process.name};
    int64_t begin = INT64_MAX, end = INT64_MIN;
    for (const TracedThread& thread : process.threads) {
      const Span* request = nullptr;
      for (const Span& span : thread.spans) {
        if (span.begin_ns < warm_ns) continue;
        const double seconds = 1e-9 * static_cast<double>(span.duration_ns());
        if (run.names[span.name].starts_with("serve_")) {
          request = &span;
          ++load.requests;
          load.busy_s += seconds;
          begin = std::min(begin, span.begin_ns);
          end = std::max(end, span.end_ns);
        } else if (request && span.depth == request->depth + 1) {
          if (span.begin_ns >= request->end_ns) continue;
          if (span.name == barrier)
            load.busy_s -= seconds;
          else
            load.work_s += seconds;
        }
      }
    }
    if (load.requests == 0) continue;
    load.total_s = 1e-9 * static_cast<double>(end - begin);
    loads.push_back(load);
  }
  return loads;
}

double ServerWorkShare(const std::vector<ServerLoad>& servers) {
  double busy_s = 0, work_s = 0;
  for (const ServerLoad& load : servers) {
    busy_s += load.busy_s;
    work_s += load.work_s;
  }
  return busy_s > 0 ? std::clamp(work_s / busy_s, 0.0, 1.0) : 1;
}

double SavedWithoutStraggler(int64_t straggler, const StepBreakdown& breakdown) {
  BarrierWaits slow, usual;
  for (const auto& [worker, waits] : breakdown.barriers) {
    BarrierWaits& sum = worker == straggler ? slow : usual;
    sum.seconds += waits.seconds;
    sum.waits += waits.waits;
  }
  const double all_s = std::max(1e-9, usual.seconds + slow.seconds);
  constexpr double kEnough = 0.05;  // the share of all waits that is needed to know the usual one
  if (usual.waits < kEnough * (usual.waits + slow.waits)) return slow.seconds / all_s;
  return std::max(0.0, slow.seconds - slow.waits * usual.seconds / usual.waits) / all_s;
}

double PredictedGain(const std::vector<StepBreakdown>& workers, const WhatIf& what_if) {
  double now_s = 0, then_s = 0;
  for (const StepBreakdown& worker : workers) {
    now_s += worker.pipeline.measured_s;
    then_s += PredictedSeconds(worker.pipeline, what_if);
  }
  return now_s / std::max(1e-9, then_s);
}

namespace {

// What the parts are called in Diagnosis::bottleneck.
const char* BottleneckName(Cause cause) {
  switch (cause) {
    case Cause::kReading:
    case Cause::kDecompression:
    case Cause::kDecoding:
    case Cause::kKeySplit:
      return "input";
    case Cause::kTraining:
      return "compute";
    case Cause::kEvaluation:
      return "evaluation";
    case Cause::kCheckpoint:
      return "checkpoint";
    case Cause::kNetwork:
      return "network";
    case Cause::kServer:
      return "server";
    case Cause::kBarrier:
      return "barrier";
    case Cause::kOtherProcesses:
      break;
  }
  return "host";
}

// Without all of its input, or without another cause.
double GainWithoutAll(const std::vector<StepBreakdown>& workers, Cause cause) {
  return PredictedGain(workers, IsInput(cause) ? WhatIf::WithoutInput() : WhatIf::Without(cause));
}

// The cause without which the run gains most. All parts are slow while other programs have the
// cores, so these come first.
Cause FindCause(const std::vector<StepBreakdown>& workers) {
  constexpr double kMuch = 1.25;  // times as fast
  if (GainWithoutAll(workers, Cause::kOtherProcesses) >= kMuch) return Cause::kOtherProcesses;
  // What the training thread computes most of its time, it is bound by: small waits for input do
  // not tell how fast the input could be.
  constexpr double kMost = 0.6;  // of the time
  const StepBreakdown mean = MeanBreakdown(workers);
  if (mean[Part::kCompute] >= kMost * mean.total_s) return Cause::kTraining;
  Cause best = Cause::kTraining;
  double best_gain = GainWithoutAll(workers, best);
  for (const Cause cause : {Cause::kReading, Cause::kEvaluation, Cause::kCheckpoint,
                            Cause::kNetwork, Cause::kServer, Cause::kBarrier}) {
    const double gain = GainWithoutAll(workers, cause);
    if (gain > best_gain) best = cause, best_gain = gain;
  }
  if (!IsInput(best)) return best;
  // The stage of the input without which the run gains most.
  best = Cause::kDecoding;
  for (const Cause stage : {Cause::kReading, Cause::kDecompression, Cause::kKeySplit}) {
    if (PredictedGain(workers, WhatIf::Without(stage)) >
        PredictedGain(workers, WhatIf::Without(best)))
      best = stage;
  }
  return best;
}

double ShareOf(const StepBreakdown& breakdown, Cause cause) {
  const double total_s = std::max(1e-9, breakdown.total_s);
  switch (cause) {
    case Cause::kReading:
    case Cause::kDecompression:
    case Cause::kDecoding:
    case Cause::kKeySplit:
      return breakdown.input_s() / total_s;
    case Cause::kTraining:
      return breakdown[Part::kCompute] / total_s;
    case Cause::kEvaluation:
      return breakdown[Part::kEvaluation] / total_s;
    case Cause::kCheckpoint:
      return breakdown[Part::kCheckpoint] / total_s;
    case Cause::kNetwork:
      return breakdown[Part::kNetwork] / total_s;
    case Cause::kServer:
      return breakdown[Part::kServer] / total_s;
    case Cause::kBarrier:
      return breakdown[Part::kBarrier] / total_s;
    case Cause::kOtherProcesses:
      break;
  }
  return breakdown.others_cpu_s / std::max(1e-9, breakdown.host_core_s);
}

}  // namespace

Diagnosis DiagnoseRun(const RunData& run, const Limits& limits) {
  Diagnosis diagnosis;
  const std::vector<ServerLoad> servers = ServerLoads(run);
  const double share = ServerWorkShare(servers);
  diagnosis.server_works = share >= kServerWorks;
  for (const ProcessData& process : run.processes) {
    if (auto breakdown = MakeStepBreakdown(run, process, share < kServerWorks ? share : 0))
      diagnosis.workers.push_back(std::move(*breakdown));
  }
  if (diagnosis.workers.empty()) {
    diagnosis.sentence = NoStepsSentence(run);
    diagnosis.evidence = TraceBounds(run, {});
    return diagnosis;
  }
  diagnosis.breakdown = MeanBreakdown(diagnosis.workers);
  std::vector<StepBreakdown> about = diagnosis.workers;
  const int64_t slow = FindStraggler(diagnosis.breakdown);
  const std::string straggler = slow < 0 ? "" : "worker-" + std::to_string(slow);
  // A straggler does not wait for itself: the waits are in the breakdowns of the other workers.
  std::vector<StepBreakdown> others = Others(diagnosis.workers, straggler);
  if (!straggler.empty() && !others.empty() &&
      LargestPart(MeanBreakdown(others)).name == std::string_view("barrier")) {
    diagnosis.breakdown = MeanBreakdown(others);
    const double saved = SavedWithoutStraggler(slow, diagnosis.breakdown);
    for (StepBreakdown& worker : others) {
      for (PipelineSlice& slice : worker.pipeline.slices) slice.saved_s[Cause::kBarrier] *= saved;
    }
    diagnosis.straggler = straggler;
    about = std::move(others);
  }
  diagnosis.cause = FindCause(about);
  if (!diagnosis.straggler.empty()) diagnosis.cause = Cause::kBarrier;
  diagnosis.bottleneck = BottleneckName(diagnosis.cause);
  diagnosis.share = ShareOf(diagnosis.breakdown, diagnosis.cause);
  for (size_t c = 0; c < kCauses; ++c) {
    const auto cause = static_cast<Cause>(c);
    diagnosis.speedups.emplace_back(cause, PredictedGain(about, WhatIf::Without(cause)));
  }
  diagnosis.speedup_without = diagnosis.speedups[static_cast<size_t>(diagnosis.cause)].second;
  std::stable_sort(diagnosis.speedups.begin(), diagnosis.speedups.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  diagnosis.advice = MakeAdvice(run, diagnosis, about);
  diagnosis.sentence = Sentence(run, diagnosis, servers);
  diagnosis.evidence = Evidence(run, diagnosis, about.size(), limits);
  return diagnosis;
}

}  // namespace millrace::report
