// SPDX-License-Identifier: Apache-2.0
// What the user can change about the cause of a bottleneck. The pipeline predicts the gain of each
// change.

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tools/common/progress.h"
#include "tools/report/diagnosis.h"

namespace millrace::report {
namespace {

using tools::WithCommas;

std::string Flag(const RunData& run, const std::string& name) {
  const auto found = run.run.find("flags." + name);
  return found == run.run.end() ? "" : found->second;
}

class Advisor {
 public:
  Advisor(const RunData& run, const Diagnosis& diagnosis, const std::vector<StepBreakdown>& workers)
      : run_(run), diagnosis_(diagnosis), workers_(workers) {}

  std::vector<Advice> Make() {
    switch (diagnosis_.cause) {
      case Cause::kReading:
        Cache();
        if (diagnosis_.breakdown.input_busy_s[Cause::kDecompression] == 0)
          Add("compress the files (millrace-records convert --compression=zstd), or a faster disk");
        break;
      case Cause::kDecompression:
        Add("store the files uncompressed (millrace-records convert --compression=none)",
            WhatIf::Without(Cause::kDecompression));
        Zstd();
        Cache();
        Threads();
        break;
      case Cause::kDecoding:
        if (IsText()) Add("convert the text to TFRecord files (millrace-records convert)");
        Cache();
        Threads();
        break;
      case Cause::kKeySplit:
        if (run_.Number("flags.num_features") == 0)
          Add("--num_features instead of a hashed-key table", WhatIf::Without(Cause::kKeySplit));
        Threads();
        break;
      case Cause::kTraining:
        Add(workers_.size() > 1 || run_.processes.size() > 1
                ? "more workers, on cores that are free (--num_workers)"
                : "more cores: workers on other machines (millrace-launch --num_workers)");
        break;
      case Cause::kEvaluation:
        LessOften("eval_every", Cause::kEvaluation, &StepBreakdown::evaluations_s);
        Add("fewer test rows");
        break;
      case Cause::kCheckpoint:
        LessOften("checkpoint_every", Cause::kCheckpoint, &StepBreakdown::checkpoints_s);
        break;
      case Cause::kNetwork:
        HalfGradients();
        LargerBatches();
        break;
      case Cause::kServer:
        LargerBatches();
        MoreServers();
        break;
      case Cause::kBarrier:
        Add("--mode=async or --mode=ssp");
        break;
      case Cause::kOtherProcesses:
        Add("stop the other processes, or let them use fewer cores (nice, taskset)",
            WhatIf::Without(Cause::kOtherProcesses));
        break;
    }
    std::stable_sort(advice_.begin(), advice_.end(),
                     [](const Advice& a, const Advice& b) { return a.gain > b.gain; });
    return advice_;
  }

 private:
  // Without a prediction.
  void Add(const std::string& text) { advice_.push_back({text, 0}); }

  void Add(const std::string& text, const WhatIf& what_if) {
    constexpr double kWorthwhile = 1.05;
    const double gain = PredictedGain(workers_, what_if);
    if (gain >= kWorthwhile) advice_.push_back({text, gain});
  }

  bool IsText() const {
    const std::string format = Flag(run_, "format");
    return format == "csv" || format == "json" || format == "libsvm" || format == "libffm" ||
           format == "vw" || format == "criteo";
  }

  // zstd takes about a quarter of the time of gzip; files that are zstd already keep theirs.
  void Zstd() {
    if (Flag(run_, "train").find(".zst") != std::string::npos) return;
    constexpr double kLeft = 0.25;
    WhatIf what_if;
    what_if.left[Cause::kDecompression] = kLeft;
    Add("or as zstd (millrace-records convert --compression=zstd)", what_if);
  }

  // Later epochs neither read nor decompress, and copy rows instead of decoding them.
  void Cache() {
    const double epochs = run_.Number("flags.epochs");
    if (epochs <= 1 || run_.Number("flags.cache") > 0) return;
    constexpr double kCopying = 0.6;  // of the time of decoding
    WhatIf what_if;
    what_if.left[Cause::kReading] = what_if.left[Cause::kDecompression] = 1 / epochs;
    what_if.left[Cause::kDecoding] = (1 + (epochs - 1) * kCopying) / epochs;
    const auto workers = static_cast<double>(std::max<size_t>(1, workers_.size()));
    const double megabytes = diagnosis_.breakdown.read_bytes / workers / epochs / 1e6;
    Add("--cache=" + std::to_string(ToCount(std::ceil(2 * megabytes)) + 100), what_if);
  }

  // Only where cores are free for them.
  void Threads() {
    const StepBreakdown& breakdown = diagnosis_.breakdown;
    const auto workers = static_cast<double>(std::max<size_t>(1, workers_.size()));
    if (breakdown.host_core_s <= 0 || breakdown.total_s <= 0) return;
    const double idle = (breakdown.host_core_s - breakdown.host_cpu_s - breakdown.others_cpu_s) /
                        breakdown.total_s / workers;
    constexpr double kFree = 0.5;
    if (idle < kFree) return;
    WhatIf what_if;
    what_if.more_input_threads = std::max(1.0, std::round(idle));
    const double threads =
        static_cast<double>(breakdown.input_threads) / workers + what_if.more_input_threads;
    Add("--threads=" + std::to_string(ToCount(threads)), what_if);
  }

  // Every tenth of these events stays, and the last one: later ones may take longer.
  void LessOften(const std::string& flag, Cause cause, std::vector<double> StepBreakdown::*events) {
    const double every = run_.Number("flags." + flag);
    if (every <= 0) return;
    constexpr size_t kTimes = 10;
    double all_s = 0, left_s = 0;
    for (const StepBreakdown& worker : workers_) {
      const std::vector<double>& durations_s = worker.*events;
      for (size_t i = 0; i < durations_s.size(); ++i) {
        all_s += durations_s[i];
        if ((i + 1) % kTimes == 0 || i + 1 == durations_s.size()) left_s += durations_s[i];
      }
    }
    if (all_s <= 0) return;
    WhatIf what_if;
    what_if.left[cause] = left_s / all_s;
    Add("--" + flag + "=" + std::to_string(ToCount(static_cast<double>(kTimes) * every)), what_if);
  }

  // Gradients take two bytes a key instead of four.
  void HalfGradients() {
    const StepBreakdown& breakdown = diagnosis_.breakdown;
    const double bytes = breakdown.sent_bytes + breakdown.received_bytes;
    if (Flag(run_, "wire_bf16") == "true" || Flag(run_, "wire_zstd") == "true" || bytes <= 0)
      return;
    WhatIf what_if;
    what_if.left[Cause::kNetwork] = std::max(0.0, 1 - 2 * breakdown.exchanged_keys / bytes);
    Add("--wire_bf16", what_if);
  }

  // An exchange has a part that does not depend on its size.
  void LargerBatches() {
    const double batch = run_.Number("flags.batch_size");
    const StepBreakdown& breakdown = diagnosis_.breakdown;
    const double rows = batch > 0 ? batch
                                  : static_cast<double>(breakdown.rows) /
                                        std::max(1.0, static_cast<double>(breakdown.steps));
    constexpr double kTimes = 4;
    const std::string text = "--batch_size=" + std::to_string(ToCount(kTimes * rows));
    if (diagnosis_.cause != Cause::kServer || diagnosis_.server_works) return Add(text);
    WhatIf what_if;
    what_if.left[Cause::kServer] = 1 / kTimes;
    Add(text, what_if);
  }

  void MoreServers() {
    const auto servers = static_cast<size_t>(
        std::count_if(run_.processes.begin(), run_.processes.end(),
                      [](const ProcessData& process) { return process.is_server(); }));
    if (servers == 0 || !diagnosis_.server_works) return;
    WhatIf what_if;
    what_if.left[Cause::kServer] = 0.5;
    Add("--num_ps=" + std::to_string(2 * servers), what_if);
  }

  const RunData& run_;
  const Diagnosis& diagnosis_;
  const std::vector<StepBreakdown>& workers_;
  std::vector<Advice> advice_;
};

}  // namespace

std::vector<Advice> MakeAdvice(const RunData& run, const Diagnosis& diagnosis,
                               const std::vector<StepBreakdown>& workers) {
  return Advisor(run, diagnosis, workers).Make();
}

}  // namespace millrace::report
