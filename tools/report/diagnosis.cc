#include "tools/report/diagnosis.h"

#include <algorithm>
#include <string_view>

#include "tools/report/bottleneck.h"
#include "tools/report/diagnosis_text.h"

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
