#include "tools/report/diagnosis.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "tools/common/progress.h"
#include "tools/report/bottleneck.h"
#include "tools/report/graph.h"
#include "tools/report/op_table.h"
#include "tools/report/resource_file.h"
#include "tools/report/text_table.h"

namespace millrace::tools {
namespace {

// One worker is the straggler when it is waited for in so much of all waiting.
constexpr double kStragglerShare = 0.6;

[[gnu::format(printf, 1, 2)]] std::string Format(const char* format, ...) {
  char text[600];
  va_list list;
  va_start(list, format);
  std::vsnprintf(text, sizeof text, format, list);
  va_end(list);
  return text;
}

std::string RateText(double bytes_per_s) {
  return BytesText(static_cast<uint64_t>(bytes_per_s)) + "/s";
}

std::string TimeText(double seconds) {
  return seconds < 1 ? Format("%.1f ms", seconds * 1e3) : DurationText(seconds);
}

double Cores(const RunData& run) {
  const auto cores = run.run.find("host.cores");
  return cores == run.run.end() ? 0 : std::atof(cores->second.c_str());
}

struct Candidate {
  const char* name;
  double seconds;
};

std::vector<Candidate> Candidates(const StepSplit& split) {
  return {{"input", split.input_s()},
          {"compute", split[Part::kCompute]},
          {"network", split[Part::kNetwork]},
          {"server", split[Part::kServer]},
          {"barrier", split[Part::kBarrier]},
          {"evaluation", split[Part::kEvaluation]},
          {"checkpoint", split[Part::kCheckpoint]}};
}

Candidate Largest(const StepSplit& split) {
  const std::vector<Candidate> all = Candidates(split);
  return *std::max_element(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    return a.seconds < b.seconds;
  });
}

// The worker that most barrier waiting is for, if there is one such; else -1.
int64_t FindStraggler(const StepSplit& mean) {
  double sum = 0, most = 0;
  int64_t worker = -1;
  for (const auto& [who, waits] : mean.barriers) {
    sum += waits.seconds;
    if (waits.seconds > most) most = waits.seconds, worker = who;
  }
  return most < kStragglerShare * sum ? -1 : worker;
}

std::vector<StepSplit> Others(const std::vector<StepSplit>& workers, const std::string& straggler) {
  std::vector<StepSplit> others;
  for (const StepSplit& split : workers) {
    if (split.process != straggler) others.push_back(split);
  }
  return others;
}

std::string TopComputeOps(const RunData& run, const std::vector<StepSplit>& workers) {
  double total_s = 0;
  int64_t warm_ns = INT64_MIN;
  for (const StepSplit& worker : workers) {
    total_s += worker.total_s;
    warm_ns = std::max(warm_ns, worker.begin_ns);
  }
  std::string text;
  int named = 0;
  for (const OpRow& row : MakeOpTable(run, warm_ns)) {
    if (row.cat != profiler::Cat::kCompute || row.where != "worker" || row.op.ends_with("(test)"))
      continue;
    text += Format("%s%s %.0f %%", text.empty() ? "" : ", ", row.op.c_str(),
                   100 * row.total_s / row.threads / std::max(1e-9, total_s));
    if (++named == 3) break;
  }
  return text;
}

std::string InputWhy(const StepSplit& split) {
  const double waiting = std::max(1e-9, split.input_s());
  const double disk = split[Part::kDisk] / waiting;
  if (disk >= 0.5) {
    return Format("in %.0f %% of it the input threads read, at %s", 100 * disk,
                  RateText(split.read_bytes / std::max(1e-9, split.total_s)).c_str());
  }
  return Format("the input threads decode for %s (%zu of them), reading takes %s",
                TimeText(split.decode_busy_s).c_str(), split.input_threads,
                TimeText(split.read_busy_s).c_str());
}

const char* Phrase(const std::string& bottleneck) {
  if (bottleneck == "input") return "waiting for input";
  if (bottleneck == "compute") return "computing";
  if (bottleneck == "network") return "sending and receiving";
  if (bottleneck == "server") return "waiting for the servers' work";
  if (bottleneck == "barrier") return "waiting at the barrier";
  if (bottleneck == "evaluation") return "testing the model";
  return "writing checkpoints";
}

std::string BarrierWhy(const Verdict& verdict) {
  if (verdict.straggler.empty()) return "no worker is always the last";
  std::string text = "the others wait for " + verdict.straggler;
  for (const StepSplit& split : verdict.workers) {
    if (split.process != verdict.straggler) continue;
    StepSplit busy = split;
    busy[Part::kBarrier] = 0;
    const Candidate own = Largest(busy);
    text += Format(", which spends %.0f %% of its time %s",
                   100 * own.seconds / std::max(1e-9, split.total_s), Phrase(own.name));
  }
  return text;
}

std::string Why(const RunData& run, const Verdict& verdict,
                const std::vector<ServerLoad>& servers) {
  const StepSplit& split = verdict.split;
  if (verdict.bottleneck == "input") return InputWhy(split);
  if (verdict.bottleneck == "compute") return TopComputeOps(run, verdict.workers);
  if (verdict.bottleneck == "network") {
    const double exchanges = std::max(1.0, split.exchanges);
    return Format("%s sent and %s received an exchange, %s in all",
                  BytesText(static_cast<uint64_t>(split.sent_bytes / exchanges)).c_str(),
                  BytesText(static_cast<uint64_t>(split.received_bytes / exchanges)).c_str(),
                  RateText((split.sent_bytes + split.received_bytes) / split.total_s).c_str());
  }
  if (verdict.bottleneck == "server") {
    std::string text;
    for (const ServerLoad& load : servers) {
      text += Format("%s%s busy %.0f %% of the time", text.empty() ? "" : ", ",
                     load.process.c_str(), 100 * load.busy_s / std::max(1e-9, load.total_s));
    }
    if (text.empty()) return "requests wait for the servers' work";
    const double share = ServerWorkShare(servers);
    if (share >= kServerWorks) return text;
    return text + Format(
                      ", with ops in %.0f %% of it: the rest waits for locks, other requests "
                      "or a core",
                      100 * share);
  }
  if (verdict.bottleneck == "barrier") return BarrierWhy(verdict);
  return Format("%llu steps were trained meanwhile", static_cast<unsigned long long>(split.steps));
}

std::string Sentence(const RunData& run, const Verdict& v, const std::vector<ServerLoad>& servers) {
  std::string name = v.bottleneck;
  name[0] = static_cast<char>(name[0] - 'a' + 'A');
  if (!v.straggler.empty()) name = "Straggler";
  return Format("%s-bound: %.1f %% of the time (%s of %s) goes into %s; %s. ", name.c_str(),
                100 * v.share, TimeText(v.share * v.split.total_s).c_str(),
                TimeText(v.split.total_s).c_str(), Phrase(v.bottleneck),
                Why(run, v, servers).c_str()) +
         Format("Without it the run would be at most %.2f times as fast.", v.speedup_without);
}

// `split`: the mean of so many workers, with the steps of all.
void AddStepTime(const StepSplit& split, size_t workers, std::vector<std::string>& lines) {
  if (split.steps == 0) return;
  const auto threads = static_cast<double>(std::max<size_t>(1, split.input_threads));
  const double input_s = (split.decode_busy_s + split.read_busy_s) / threads;
  const double steps_s = split.total_s - split[Part::kEvaluation] - split[Part::kCheckpoint];
  const double own_s = steps_s - split.input_s();
  const char* who = own_s >= input_s ? "the training thread" : "the input threads";
  const auto per_step = [&](double seconds) {
    return seconds * 1e6 * static_cast<double>(workers) / static_cast<double>(split.steps);
  };
  lines.push_back(
      Format("step time: predicted %.1f us from its parts (the training thread needs %.1f, the "
             "input threads %.1f beside it: %s set%s the pace), measured %.1f us",
             per_step(std::max(own_s, input_s)), per_step(own_s), per_step(input_s), who,
             own_s >= input_s ? "s" : "", per_step(steps_s)));
}

double Stated(const RunData& run, const std::string& name) {
  const auto found = run.run.find(name);
  return found == run.run.end() ? 0 : std::atof(found->second.c_str());
}

bool IsSet(const RunData& run, const std::string& name) {
  const auto found = run.run.find(name);
  return found != run.run.end() && found->second == "true";
}

double LastOf(const ProcessData& process, std::string_view column) {
  const auto values = process.samples.find(column);
  if (values == process.samples.end() || values->second.empty()) return 0;
  return values->second.back() - values->second.front();
}

void AddTraffic(const RunData& run, const StepSplit& split, std::vector<std::string>& lines) {
  if (split.exchanges == 0) return;
  const double exchanges = split.exchanges, keys = split.exchanged_keys / exchanges;
  constexpr double kUp = 12, kDown = 4;  // key and gradient; weight
  double predicted = keys * (kUp + kDown);
  bool is_packed = true;  // keys are sent as differences, and zstd packs what it can
  std::string how = Format("%.0f keys; 12 bytes a key up, 4 down, as they are", keys);
  if (const uint64_t parameters = NumParameters(run); parameters > 0) {
    const double up = IsSet(run, "flags.wire_bf16") ? 2 : 4;
    predicted = (up + kDown) * static_cast<double>(parameters);
    is_packed = IsSet(run, "flags.wire_zstd");
    how = WithCommas(parameters) + Format(" parameters; %.0f bytes each up, 4 down", up);
  }
  if (const double stated = Stated(run, "predicted.bytes_per_exchange"); stated > 0) {
    predicted = stated;
    is_packed = false;
    how = Format("%.0f keys; as the run states", keys);
  }
  const double measured = (split.sent_bytes + split.received_bytes) / exchanges;
  lines.push_back(Format(
      "bytes an exchange: %s %s (%s), measured %s sent + %s "
      "received = %.2f of it",
      is_packed ? "unpacked" : "predicted", BytesText(static_cast<uint64_t>(predicted)).c_str(),
      how.c_str(), BytesText(static_cast<uint64_t>(split.sent_bytes / exchanges)).c_str(),
      BytesText(static_cast<uint64_t>(split.received_bytes / exchanges)).c_str(),
      measured / std::max(1.0, predicted)));
  double kernel = 0;
  for (const ProcessData& process : run.processes) {
    if (process.is_server()) continue;
    kernel += LastOf(process, "tcp_sent_bytes_total") + LastOf(process, "tcp_received_bytes_total");
  }
  if (kernel <= 0) return;
  lines.push_back(
      Format("bytes on the workers' sockets, as the kernel counts: %s; in the traced "
             "exchanges: %s",
             BytesText(static_cast<uint64_t>(kernel)).c_str(),
             BytesText(static_cast<uint64_t>(split.sent_bytes + split.received_bytes)).c_str()));
}

double PeakOf(const std::vector<double>& rates) {
  return rates.empty() ? 0 : *std::max_element(rates.begin(), rates.end());
}

// Whether the run had the cores of its hosts for itself.
void AddOthers(const RunData& run, const Verdict& verdict, std::vector<std::string>& lines) {
  constexpr double kShare = 0.25;  // of the cores
  std::map<std::string, const StepSplit*> hosts;
  for (const StepSplit& split : verdict.workers) {
    for (const ProcessData& process : run.processes) {
      if (process.name == split.process) hosts.try_emplace(process.host, &split);
    }
  }
  for (const auto& [host, split] : hosts) {
    if (split->others_cpu_s <= kShare * split->host_core_s) continue;
    const std::string where = hosts.size() > 1 ? " on " + host : "";
    lines.push_back(Format(
        "CPU: %.1f of %.0f cores%s were busy with other processes on average; "
        "the run had what was left",
        split->others_cpu_s / split->total_s, split->host_core_s / split->total_s, where.c_str()));
  }
}

void AddLimits(const RunData& run, const Limits& limits, const Verdict& verdict,
               std::vector<std::string>& lines) {
  const double cores = Cores(run);
  if (cores > 0 && verdict.split.host_cpu_s > 0) {
    lines.push_back(Format("CPU: %.2f of %.0f cores busy with the run's processes on average",
                           verdict.split.host_cpu_s / verdict.split.total_s, cores));
  }
  AddOthers(run, verdict, lines);
  for (const ProcessData& process : run.processes) {
    if (limits.network_bytes_per_s > 0) {
      const double peak = PeakOf(Rates(process, "tcp_sent_bytes_total"));
      lines.push_back(Format("network: %s sent at most %s of %s stated", process.name.c_str(),
                             RateText(peak).c_str(), RateText(limits.network_bytes_per_s).c_str()));
    }
    if (limits.disk_bytes_per_s > 0) {
      const double peak = PeakOf(Rates(process, "read_bytes_total"));
      lines.push_back(Format("disk: %s read at most %s of %s stated", process.name.c_str(),
                             RateText(peak).c_str(), RateText(limits.disk_bytes_per_s).c_str()));
    }
  }
}

// Of which steps the rest speaks, where that is not all of them.
void AddStepBounds(const RunData& run, const StepSplit& split, std::vector<std::string>& lines) {
  const auto process = std::find_if(run.processes.begin(), run.processes.end(),
                                    [&](const ProcessData& p) { return p.name == split.process; });
  if (process != run.processes.end() && process->steps > 0) {
    const auto window = run.run.find("flags.profile_steps");
    lines.push_back(Format(
        "%s: traced %s of %s steps%s; what is said here is about them", split.process.c_str(),
        WithCommas(split.steps + split.warm_up_steps).c_str(), WithCommas(process->steps).c_str(),
        window == run.run.end() ? "" : (" (--profile_steps=" + window->second + ")").c_str()));
  }
  if (split.warm_up_steps == 0) return;
  lines.push_back(Format(
      "%s: warm-up left out: the first %s, %s, in which memory is fetched", split.process.c_str(),
      split.warm_up_steps == 1 ? "step" : (WithCommas(split.warm_up_steps) + " steps").c_str(),
      TimeText(split.warm_up_s).c_str()));
}

// Why there is nothing to judge.
std::string NoSteps(const RunData& run) {
  const auto window = run.run.find("flags.profile_steps");
  if (window == run.run.end() || window->second.empty()) {
    return "No trace with steps in this run: start it with --profile to get a verdict.";
  }
  uint64_t steps = 0;
  for (const ProcessData& process : run.processes) steps = std::max(steps, process.steps);
  const std::string reached = steps > 0 ? ": the run made " + WithCommas(steps) + " steps" : "";
  return "No step was traced: the window --profile_steps=" + window->second + " was not reached" +
         reached + ".";
}

void AddTraceBounds(const RunData& run, std::vector<std::string>& lines) {
  for (const ProcessData& process : run.processes) {
    if (process.dropped_spans == 0) continue;
    lines.push_back(
        Format("%s: %s spans did not fit into its buffers; what is said here is about "
               "the part before (use --profile_steps for a later one)",
               process.name.c_str(), WithCommas(process.dropped_spans).c_str()));
  }
}

}  // namespace

Verdict JudgeRun(const RunData& run, const Limits& limits) {
  Verdict verdict;
  const std::vector<ServerLoad> servers = ServerLoads(run);
  const double share = ServerWorkShare(servers);
  for (const ProcessData& process : run.processes) {
    if (auto split = SplitSteps(run, process, share < kServerWorks ? share : 0))
      verdict.workers.push_back(std::move(*split));
  }
  AddTraceBounds(run, verdict.evidence);
  if (verdict.workers.empty()) {
    verdict.sentence = NoSteps(run);
    return verdict;
  }
  for (const StepSplit& worker : verdict.workers) AddStepBounds(run, worker, verdict.evidence);
  verdict.split = MeanSplit(verdict.workers);
  const int64_t slow = FindStraggler(verdict.split);
  const std::string straggler = slow < 0 ? "" : "worker-" + std::to_string(slow);
  // A straggler does not wait for itself: the waiting is in the others' splits.
  const std::vector<StepSplit> others = Others(verdict.workers, straggler);
  if (!straggler.empty() && !others.empty() &&
      Largest(MeanSplit(others)).name == std::string_view("barrier")) {
    verdict.split = MeanSplit(others);
    verdict.split.saved_without_barrier_s = SavedWithoutStraggler(slow, verdict.split);
    verdict.straggler = straggler;
  }
  const Candidate worst = Largest(verdict.split);
  verdict.bottleneck = worst.name;
  verdict.share = worst.seconds / std::max(1e-9, verdict.split.total_s);
  verdict.speedup_without =
      verdict.split.total_s / SecondsWithout(worst.name, worst.seconds, verdict.split, Cores(run));
  verdict.sentence = Sentence(run, verdict, servers);
  const size_t counted = verdict.straggler.empty() ? verdict.workers.size() : others.size();
  AddStepTime(verdict.split, counted, verdict.evidence);
  AddTraffic(run, MeanSplit(verdict.workers), verdict.evidence);
  AddLimits(run, limits, verdict, verdict.evidence);
  return verdict;
}

std::string SplitText(const Verdict& verdict) {
  std::vector<TextColumn> columns = {{"part"}};
  for (const StepSplit& split : verdict.workers) {
    columns.push_back({split.process + " s", true});
    columns.push_back({"%", true});
    columns.push_back({"us a step", true});
  }
  TextTable table(columns);
  for (size_t p = 0; p < kParts; ++p) {
    std::vector<std::string> cells = {PartName(static_cast<Part>(p))};
    for (const StepSplit& split : verdict.workers) {
      cells.push_back(Format("%.3f", split.seconds[p]));
      cells.push_back(Format("%.1f", 100 * split.seconds[p] / std::max(1e-9, split.total_s)));
      cells.push_back(Format("%.1f", split.seconds[p] * 1e6 /
                                         static_cast<double>(std::max<uint64_t>(1, split.steps))));
    }
    table.Add(std::move(cells));
  }
  return table.Text();
}

}  // namespace millrace::tools
