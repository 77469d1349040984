// SPDX-License-Identifier: Apache-2.0
#include "tools/report/diagnosis.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <map>

#include "tools/common/progress.h"
#include "tools/common/text_table.h"
#include "tools/report/graph.h"
#include "tools/report/op_table.h"

namespace millrace::report {
namespace {

using tools::BytesText;
using tools::DurationText;
using tools::TextColumn;
using tools::TextTable;
using tools::WithCommas;

[[gnu::format(printf, 1, 2)]] std::string Format(const char* format, ...) {
  char text[600];
  va_list list;
  va_start(list, format);
  std::vsnprintf(text, sizeof text, format, list);
  va_end(list);
  return text;
}

constexpr uint64_t kTracedSteps = 1000;  // that are enough for a diagnosis

std::string RateText(double bytes_per_s) { return BytesText(ToCount(bytes_per_s)) + "/s"; }

std::string TimeText(double seconds) {
  return seconds < 1 ? Format("%.1f ms", seconds * 1e3) : DurationText(seconds);
}

std::string TopComputeOps(const RunData& run, const std::vector<StepBreakdown>& workers) {
  double total_s = 0;
  for (const StepBreakdown& worker : workers) total_s += worker.total_s;
  std::string text;
  int named = 0;
  for (const OpRow& row : MakeOpTable(run, WarmUpEndNs(run))) {
    if (row.cat != profiler::Cat::kCompute || row.where != "worker" || row.op.ends_with("(eval)"))
      continue;
    text += Format("%s%s %.0f %%", text.empty() ? "" : ", ", row.op.c_str(),
                   100 * row.total_s / row.threads / std::max(1e-9, total_s));
    if (++named == 3) break;
  }
  return text;
}

// "decompression 61 %, decoding 20 %": the stages of the input threads, largest first.
std::string InputStages(const StepBreakdown& breakdown) {
  std::vector<std::pair<double, std::string>> stages;
  const double all_s = std::max(1e-9, breakdown.input_busy());
  for (size_t c = 0; c < kInputCauses; ++c) {
    const double share = breakdown.input_busy_s.values[c] / all_s;
    if (share >= 0.005)
      stages.emplace_back(-share,
                          Format("%s %.0f %%", CauseName(static_cast<Cause>(c)), 100 * share));
  }
  std::sort(stages.begin(), stages.end());
  std::string text;
  for (const auto& [share, stage] : stages) text += (text.empty() ? "" : ", ") + stage;
  return text;
}

std::string InputWhy(const Diagnosis& diagnosis) {
  const StepBreakdown& breakdown = diagnosis.breakdown;
  const double waiting = std::max(1e-9, breakdown.input_s());
  const double disk = breakdown[Part::kDisk] / waiting;
  if (diagnosis.cause == Cause::kReading && disk >= 0.5) {
    return Format("in %.0f %% of it the input threads read, at %s", 100 * disk,
                  RateText(breakdown.read_bytes / std::max(1e-9, breakdown.total_s)).c_str());
  }
  const double busy_s = breakdown.input_busy();
  if (busy_s <= 0) return "the input threads have no trace that shows why";
  const char* verb = diagnosis.cause == Cause::kDecoding ? "decoding" : CauseName(diagnosis.cause);
  return Format("%s takes %.0f %% of the input threads' work (%zu of them)", verb,
                100 * breakdown.input_busy_s[diagnosis.cause] / busy_s, breakdown.input_threads);
}

const char* Phrase(const std::string& bottleneck) {
  if (bottleneck == "input") return "waiting for input";
  if (bottleneck == "compute") return "computing";
  if (bottleneck == "network") return "sending and receiving";
  if (bottleneck == "server") return "waiting for servers";
  if (bottleneck == "barrier") return "waiting at the barrier";
  if (bottleneck == "evaluation") return "evaluating the model";
  if (bottleneck == "host") return "other processes on the same cores";
  return "writing checkpoints";
}

std::string BarrierWhy(const Diagnosis& diagnosis) {
  if (diagnosis.straggler.empty()) return "no single worker is always the last";
  std::string text = "the other workers wait for " + diagnosis.straggler;
  for (const StepBreakdown& breakdown : diagnosis.workers) {
    if (breakdown.process != diagnosis.straggler) continue;
    StepBreakdown busy = breakdown;
    busy[Part::kBarrier] = 0;
    const Bottleneck own = LargestPart(busy);
    text += Format(", which spends %.0f %% of its time %s",
                   100 * own.seconds / std::max(1e-9, breakdown.total_s), Phrase(own.name));
  }
  return text;
}

std::string Why(const RunData& run, const Diagnosis& diagnosis,
                const std::vector<ServerLoad>& servers) {
  const StepBreakdown& breakdown = diagnosis.breakdown;
  if (diagnosis.bottleneck == "input") return InputWhy(diagnosis);
  if (diagnosis.bottleneck == "compute") return TopComputeOps(run, diagnosis.workers);
  if (diagnosis.bottleneck == "network") {
    const double exchanges = std::max(1.0, breakdown.exchanges);
    return Format(
        "%s sent and %s received per exchange, %s in total",
        BytesText(ToCount(breakdown.sent_bytes / exchanges)).c_str(),
        BytesText(ToCount(breakdown.received_bytes / exchanges)).c_str(),
        RateText((breakdown.sent_bytes + breakdown.received_bytes) / breakdown.total_s).c_str());
  }
  if (diagnosis.bottleneck == "server") {
    std::string text;
    for (const ServerLoad& load : servers) {
      text += Format("%s%s busy %.0f %% of the time", text.empty() ? "" : ", ",
                     load.process.c_str(), 100 * load.busy_s / std::max(1e-9, load.total_s));
    }
    if (text.empty()) return "the servers have no trace that shows why";
    const double share = ServerWorkShare(servers);
    if (share >= kServerWorks) return text;
    return text + Format(
                      ", with ops in %.0f %% of it: the rest is blocked on locks, other requests "
                      "or a core",
                      100 * share);
  }
  if (diagnosis.bottleneck == "barrier") return BarrierWhy(diagnosis);
  if (diagnosis.bottleneck == "host")
    return Format("the run has the rest of the %.0f cores",
                  breakdown.host_core_s / std::max(1e-9, breakdown.total_s));
  return Format("the run has %llu steps", static_cast<unsigned long long>(breakdown.steps));
}

// `breakdown`: the mean of `workers` workers, with the steps of all of them.
void AddStepTime(const StepBreakdown& breakdown, size_t workers, std::vector<std::string>& lines) {
  if (breakdown.steps == 0) return;
  const auto threads = static_cast<double>(std::max<size_t>(1, breakdown.input_threads));
  const double input_s = breakdown.input_busy() / threads;
  const double steps_s =
      breakdown.total_s - breakdown[Part::kEvaluation] - breakdown[Part::kCheckpoint];
  const double own_s = steps_s - breakdown.input_s();
  // Who sets the pace works nearly all the time. Otherwise input arrives late although its threads
  // have time: they wait for each other, for a core, or at the start-up.
  constexpr double kBusy = 0.9;
  const char* pace =
      own_s >= input_s ? "the training thread sets the pace" : "the input threads set the pace";
  if (std::max(own_s, input_s) < kBusy * steps_s) {
    pace = "neither sets the pace: input threads wait for each other or for a core";
  }
  const auto per_step = [&](double seconds) {
    return seconds * 1e6 * static_cast<double>(workers) / static_cast<double>(breakdown.steps);
  };
  lines.push_back(
      Format("step time: predicted %.1f us (the training thread needs %.1f us, the input threads "
             "in parallel %.1f us), measured %.1f us: %s",
             per_step(std::max(own_s, input_s)), per_step(own_s), per_step(input_s),
             per_step(steps_s), pace));
}

bool IsSet(const RunData& run, const std::string& name) {
  const auto found = run.run.find(name);
  return found != run.run.end() && found->second == "true";
}

double GrowthOf(const ProcessData& process, std::string_view column) {
  const auto values = process.samples.find(column);
  if (values == process.samples.end() || values->second.empty()) return 0;
  return values->second.back() - values->second.front();
}

void AddTraffic(const RunData& run, const StepBreakdown& breakdown,
                std::vector<std::string>& lines) {
  if (breakdown.exchanges == 0) return;
  const double exchanges = breakdown.exchanges, keys = breakdown.exchanged_keys / exchanges;
  constexpr double kUp = 12, kDown = 4;  // key and gradient; weight
  double predicted = keys * (kUp + kDown);
  bool is_compressed = true;  // keys are sent as differences, and zstd compresses the rest
  std::string how = Format("%.0f keys; 12 bytes per key up, 4 down", keys);
  if (const uint64_t parameters = NumParameters(run); parameters > 0) {
    const double up = IsSet(run, "flags.wire_bf16") ? 2 : 4;
    predicted = (up + kDown) * static_cast<double>(parameters);
    is_compressed = IsSet(run, "flags.wire_zstd");
    how = WithCommas(parameters) + Format(" parameters; %.0f bytes each up, 4 down", up);
  }
  if (const double stated = run.Number("predicted.bytes_per_exchange"); stated > 0) {
    predicted = stated;
    is_compressed = false;
    how = Format("%.0f keys; as the run states", keys);
  }
  const double measured = (breakdown.sent_bytes + breakdown.received_bytes) / exchanges;
  lines.push_back(
      Format("bytes per exchange: %s %s (%s), measured %s sent + %s "
             "received = %.2f of it",
             is_compressed ? "uncompressed" : "predicted", BytesText(ToCount(predicted)).c_str(),
             how.c_str(), BytesText(ToCount(breakdown.sent_bytes / exchanges)).c_str(),
             BytesText(ToCount(breakdown.received_bytes / exchanges)).c_str(),
             measured / std::max(1.0, predicted)));
  double kernel = 0;
  for (const ProcessData& process : run.processes) {
    if (process.is_server()) continue;
    kernel +=
        GrowthOf(process, "tcp_sent_bytes_total") + GrowthOf(process, "tcp_received_bytes_total");
  }
  if (kernel <= 0) return;
  lines.push_back(
      Format("bytes on the workers' sockets by the kernel's count: %s; in the traced "
             "exchanges: %s",
             BytesText(ToCount(kernel)).c_str(),
             BytesText(ToCount(breakdown.sent_bytes + breakdown.received_bytes)).c_str()));
}

// Says that much of the traced time was the start-up, which a longer run does not have.
std::string StartUpText(const RunData& run, const StepBreakdown& breakdown) {
  if (breakdown.start_up_s <= 0) return "";
  std::string text = Format(
      " %.0f %% of the traced time was start-up (the first %s), which is left "
      "out here",
      100 * breakdown.start_up_share,
      breakdown.start_up_steps == 1 ? "step"
                                    : (WithCommas(breakdown.start_up_steps) + " steps").c_str());
  const uint64_t steps = ToCount(run.Number("steps"));
  if (steps < 2 * kTracedSteps)
    return text + ": the run is too short to tell what limits a long one.";
  return text + Format("; --profile_steps=%llu:%llu shows the middle of the run.",
                       static_cast<unsigned long long>(steps / 2),
                       static_cast<unsigned long long>(steps / 2 + kTracedSteps));
}

double PeakOf(const std::vector<double>& rates) {
  return rates.empty() ? 0 : *std::max_element(rates.begin(), rates.end());
}

// States how many cores other processes used, if that is a relevant share.
void AddOtherProcesses(const RunData& run, const Diagnosis& diagnosis,
                       std::vector<std::string>& lines) {
  constexpr double kShare = 0.25;  // of the cores
  std::map<std::string, const StepBreakdown*> hosts;
  for (const StepBreakdown& breakdown : diagnosis.workers) {
    for (const ProcessData& process : run.processes) {
      if (process.name == breakdown.process) hosts.try_emplace(process.host, &breakdown);
    }
  }
  for (const auto& [host, breakdown] : hosts) {
    if (breakdown->others_cpu_s <= kShare * breakdown->host_core_s) continue;
    const std::string where = hosts.size() > 1 ? " on " + host : "";
    lines.push_back(
        Format("CPU: %.1f of %.0f cores%s were busy with other processes on average; "
               "the run had the rest",
               breakdown->others_cpu_s / breakdown->total_s,
               breakdown->host_core_s / breakdown->total_s, where.c_str()));
  }
}

void AddLimits(const RunData& run, const Limits& limits, const Diagnosis& diagnosis,
               std::vector<std::string>& lines) {
  const double cores = run.Number("host.cores");
  if (cores > 0 && diagnosis.breakdown.host_cpu_s > 0) {
    lines.push_back(Format("CPU: %.2f of %.0f cores busy with the run's processes on average",
                           diagnosis.breakdown.host_cpu_s / diagnosis.breakdown.total_s, cores));
  }
  AddOtherProcesses(run, diagnosis, lines);
  for (const ProcessData& process : run.processes) {
    if (limits.network_bytes_per_s > 0) {
      const double peak = PeakOf(Rates(process, "tcp_sent_bytes_total"));
      lines.push_back(Format("network: %s sent at most %s of the limit of %s", process.name.c_str(),
                             RateText(peak).c_str(), RateText(limits.network_bytes_per_s).c_str()));
    }
    if (limits.disk_bytes_per_s > 0) {
      const double peak = PeakOf(Rates(process, "read_bytes_total"));
      lines.push_back(Format("disk: %s read at most %s of the limit of %s", process.name.c_str(),
                             RateText(peak).c_str(), RateText(limits.disk_bytes_per_s).c_str()));
    }
  }
}

// States which steps are traced and counted, if that is not all of them.
void AddStepBounds(const RunData& run, const StepBreakdown& breakdown,
                   std::vector<std::string>& lines) {
  const auto process =
      std::find_if(run.processes.begin(), run.processes.end(),
                   [&](const ProcessData& p) { return p.name == breakdown.process; });
  if (process != run.processes.end() && process->steps > 0) {
    const auto window = run.run.find("flags.profile_steps");
    lines.push_back(Format(
        "%s: traced %s of %s steps%s; the diagnosis covers these", breakdown.process.c_str(),
        WithCommas(breakdown.steps + breakdown.warm_up_steps).c_str(),
        WithCommas(process->steps).c_str(),
        window == run.run.end() ? "" : (" (--profile_steps=" + window->second + ")").c_str()));
  }
  if (breakdown.warm_up_steps == 0) return;
  lines.push_back(Format("%s: excludes the warm-up: the first %s (%s), which allocates memory",
                         breakdown.process.c_str(),
                         breakdown.warm_up_steps == 1
                             ? "step"
                             : (WithCommas(breakdown.warm_up_steps) + " steps").c_str(),
                         TimeText(breakdown.warm_up_s).c_str()));
}

void AddDroppedSpans(const RunData& run, std::vector<std::string>& lines) {
  for (const ProcessData& process : run.processes) {
    if (process.dropped_spans == 0) continue;
    lines.push_back(
        Format("%s: %s spans did not fit into its buffers; the diagnosis covers the part of the "
               "run before (--profile_steps traces a later one)",
               process.name.c_str(), WithCommas(process.dropped_spans).c_str()));
  }
}

}  // namespace

std::vector<std::string> TraceBounds(const RunData& run,
                                     const std::vector<StepBreakdown>& workers) {
  std::vector<std::string> lines;
  AddDroppedSpans(run, lines);
  for (const StepBreakdown& worker : workers) AddStepBounds(run, worker, lines);
  return lines;
}

std::vector<std::string> Evidence(const RunData& run, const Diagnosis& diagnosis,
                                  size_t num_workers, const Limits& limits) {
  std::vector<std::string> lines = TraceBounds(run, diagnosis.workers);
  if (const std::string stages = InputStages(diagnosis.breakdown); !stages.empty())
    lines.push_back("input threads: " + stages);
  AddStepTime(diagnosis.breakdown, num_workers, lines);
  AddTraffic(run, MeanBreakdown(diagnosis.workers), lines);
  AddLimits(run, limits, diagnosis, lines);
  return lines;
}

std::string Sentence(const RunData& run, const Diagnosis& d,
                     const std::vector<ServerLoad>& servers) {
  std::string name = d.bottleneck;
  name[0] = static_cast<char>(name[0] - 'a' + 'A');
  if (!d.straggler.empty()) name = "Straggler";
  const double all_s = d.bottleneck == "host" ? d.breakdown.host_core_s : d.breakdown.total_s;
  return Format("%s-bound: %.1f %% of the %s (%s of %s) goes into %s; %s. ", name.c_str(),
                100 * d.share, d.bottleneck == "host" ? "cores' time" : "time",
                TimeText(d.share * all_s).c_str(), TimeText(all_s).c_str(), Phrase(d.bottleneck),
                Why(run, d, servers).c_str()) +
         Format("Without %s the run would be at most %.2f times as fast.",
                d.bottleneck == "host" ? "them"
                : IsInput(d.cause)     ? CauseName(d.cause)
                                       : "it",
                d.speedup_without) +
         StartUpText(run, d.breakdown);
}

std::string AdviceText(const Advice& advice) {
  if (advice.gain <= 0) return advice.text;
  return advice.text + Format(": up to %.1f times as fast", advice.gain);
}

std::string NoStepsSentence(const RunData& run) {
  const auto window = run.run.find("flags.profile_steps");
  if (window == run.run.end() || window->second.empty()) {
    return "No trace with steps in this run: start it with --profile to get a diagnosis.";
  }
  uint64_t steps = 0;
  for (const ProcessData& process : run.processes) steps = std::max(steps, process.steps);
  const std::string reached = steps > 0 ? ": the run has " + WithCommas(steps) + " steps" : "";
  return "No step was traced: the window --profile_steps=" + window->second + " was not reached" +
         reached + ".";
}

std::string BreakdownText(const Diagnosis& diagnosis) {
  std::vector<TextColumn> columns = {{"part"}};
  for (const StepBreakdown& breakdown : diagnosis.workers) {
    columns.push_back({breakdown.process + " s", true});
    columns.push_back({"%", true});
    columns.push_back({"us per step", true});
  }
  TextTable table(columns);
  for (size_t p = 0; p < kParts; ++p) {
    std::vector<std::string> cells = {PartName(static_cast<Part>(p))};
    for (const StepBreakdown& breakdown : diagnosis.workers) {
      cells.push_back(Format("%.3f", breakdown.seconds[p]));
      cells.push_back(
          Format("%.1f", 100 * breakdown.seconds[p] / std::max(1e-9, breakdown.total_s)));
      cells.push_back(
          Format("%.1f", breakdown.seconds[p] * 1e6 /
                             static_cast<double>(std::max<uint64_t>(1, breakdown.steps))));
    }
    table.Add(std::move(cells));
  }
  return table.Text();
}

}  // namespace millrace::report
