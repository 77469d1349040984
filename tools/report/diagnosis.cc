// SPDX-License-Identifier: Apache-2.0
#include "tools/report/diagnosis.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace millrace::report {
namespace {

double Saved(const Bottleneck& bottleneck, const StepBreakdown& breakdown) {
  const std::string_view name = bottleneck.name;
  if (name == "network") return breakdown.saved_without_network_s;
  if (name == "server") return breakdown.saved_without_server_s;
  if (name == "barrier") return breakdown.saved_without_barrier_s;
  return bottleneck.seconds;
}

// The time of decoding at full speed. Threads that pause between batches, because the run is
// blocked on something else, find cold caches after each pause.
double DecodingTime(std::string_view name, const StepBreakdown& breakdown) {
  constexpr double kPausing = 0.5;  // busy for at most this share of the time
  const auto threads = static_cast<double>(std::max<size_t>(1, breakdown.input_threads));
  const double busy_s = breakdown.decode_busy_s + breakdown.read_busy_s;
  const bool is_wait = name == "network" || name == "server" || name == "barrier";
  if (!is_wait || busy_s > kPausing * threads * breakdown.total_s) return breakdown.decode_busy_s;
  return std::min(breakdown.decode_fast_s, breakdown.decode_busy_s);
}

// The input threads keep their own speed; without the wait for input, they still decode.
double InputFloor(std::string_view name, const StepBreakdown& breakdown) {
  const auto threads = static_cast<double>(std::max<size_t>(1, breakdown.input_threads));
  const double reading_s = name == "input" ? 0 : breakdown.read_busy_s;
  return (DecodingTime(name, breakdown) + reading_s) / threads;
}

// The remaining work of all processes needs the cores.
double CpuFloor(std::string_view name, const StepBreakdown& breakdown, double cores) {
  if (cores <= 0) return 0;
  double gone_s = breakdown.decode_busy_s - DecodingTime(name, breakdown);
  if (name == "compute") gone_s += breakdown[Part::kCompute];
  return std::max(0.0, breakdown.host_cpu_s - gone_s) / cores;
}

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
  constexpr double kEnough = 0.05;  // the share of all waits that is needed to know the usual one
  if (usual.waits < kEnough * (usual.waits + slow.waits)) return slow.seconds;
  return std::max(0.0, slow.seconds - slow.waits * usual.seconds / usual.waits);
}

double SecondsWithout(const Bottleneck& bottleneck, const StepBreakdown& breakdown, double cores) {
  const std::string_view name = bottleneck.name;
  const double thread_s = breakdown.total_s - Saved(bottleneck, breakdown);
  return std::max({thread_s, InputFloor(name, breakdown), CpuFloor(name, breakdown, cores), 1e-9});
}

Diagnosis DiagnoseRun(const RunData& run, const Limits& limits) {
  Diagnosis diagnosis;
  const std::vector<ServerLoad> servers = ServerLoads(run);
  const double share = ServerWorkShare(servers);
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
  const int64_t slow = FindStraggler(diagnosis.breakdown);
  const std::string straggler = slow < 0 ? "" : "worker-" + std::to_string(slow);
  // A straggler does not wait for itself: the waits are in the breakdowns of the other workers.
  const std::vector<StepBreakdown> others = Others(diagnosis.workers, straggler);
  size_t num_workers = diagnosis.workers.size();
  if (!straggler.empty() && !others.empty() &&
      LargestPart(MeanBreakdown(others)).name == std::string_view("barrier")) {
    diagnosis.breakdown = MeanBreakdown(others);
    diagnosis.breakdown.saved_without_barrier_s = SavedWithoutStraggler(slow, diagnosis.breakdown);
    diagnosis.straggler = straggler;
    num_workers = others.size();
  }
  const Bottleneck worst = LargestPart(diagnosis.breakdown);
  diagnosis.bottleneck = worst.name;
  diagnosis.share = worst.seconds / std::max(1e-9, diagnosis.breakdown.total_s);
  diagnosis.speedup_without = diagnosis.breakdown.total_s /
                              SecondsWithout(worst, diagnosis.breakdown, run.Number("host.cores"));
  diagnosis.sentence = Sentence(run, diagnosis, servers);
  diagnosis.evidence = Evidence(run, diagnosis, num_workers, limits);
  return diagnosis;
}

}  // namespace millrace::report
