#include "tools/report/step_breakdown.h"

#include <algorithm>
#include <cmath>

namespace millrace::tools {
namespace {

using profiler::Cat;

struct Interval {
  int64_t begin_ns, end_ns;
};

// The thread with most steps.
const TracedThread* TrainingThread(const RunData& run, const ProcessData& process) {
  const uint32_t step = run.names.Find("step");
  const TracedThread* best = nullptr;
  ptrdiff_t best_steps = 0;
  for (const TracedThread& thread : process.threads) {
    const ptrdiff_t steps = std::count_if(thread.spans.begin(), thread.spans.end(),
                                          [&](const Span& span) { return span.name == step; });
    if (steps > best_steps) best = &thread, best_steps = steps;
  }
  return best;
}

Part PartOf(Cat cat) {
  switch (cat) {
    case Cat::kInput:
      return Part::kInput;
    case Cat::kDisk:
      return Part::kDisk;
    case Cat::kStep:
    case Cat::kCompute:
      return Part::kCompute;
    case Cat::kNetwork:
      return Part::kNetwork;
    case Cat::kServer:
      return Part::kServer;
    case Cat::kBarrier:
      return Part::kBarrier;
    case Cat::kEvaluation:
      return Part::kEvaluation;
    case Cat::kCheckpoint:
      return Part::kCheckpoint;
    case Cat::kOp:
      break;
  }
  return Part::kOther;
}

// The step that counts as the first: the first ones may be many times as long as all others,
// because the servers' and the worker's memory is touched for the first time. A window that was
// chosen is taken as it is.
std::vector<Span>::const_iterator FirstStep(const ProcessData& process, const TracedThread& thread,
                                            uint32_t step) {
  constexpr size_t kMostWarmUp = 10;  // steps, and at most a tenth of all
  constexpr int64_t kLong = 10;       // times the median
  std::vector<int64_t> durations;
  for (const Span& span : thread.spans) {
    if (span.name == step) durations.push_back(span.duration_ns());
  }
  const size_t most = process.steps > 0 ? 0 : std::min(kMostWarmUp, durations.size() / 10);
  size_t skipped = 0;
  if (most > 0) {
    std::vector<int64_t> sorted = durations;
    const auto middle = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    for (size_t s = 0; s < most && s <= skipped + 1; ++s) {  // one in between may be short
      if (durations[s] > kLong * *middle) skipped = s + 1;
    }
  }
  return std::find_if(thread.spans.begin(), thread.spans.end(),
                      [&](const Span& span) { return span.name == step && skipped-- == 0; });
}

double Seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

// Goes through a thread's spans with the stack of those that are open, and gives each span's own
// time (that of spans inside taken off) to a part.
class Splitter {
 public:
  Splitter(const RunData& run, const ProcessData& process, double server_share, StepSplit& split)
      : process_(process),
        server_share_(server_share),
        split_(split),
        step_(run.names.Find("step")),
        save_(run.names.Find("save_model")),
        send_(run.names.Find("exchange_send")),
        wait_(run.names.Find("exchange_wait")),
        rows_(run.names.Find("rows")),
        keys_(run.names.Find("keys")),
        bytes_(run.names.Find("bytes")),
        server_ns_(run.names.Find("server_ns")),
        barrier_ns_(run.names.Find("barrier_ns")),
        straggler_(run.names.Find("straggler")) {}

  void Go(const TracedThread& thread) {
    const auto first = FirstStep(process_, thread, step_);
    CountWarmUp(thread, *first);
    int64_t end_ns = first->begin_ns, covered_ns = 0;
    for (auto span = first; span != thread.spans.end() && span->name != save_; ++span) {
      CloseUntil(span->begin_ns);
      if (stack_.empty()) covered_ns += span->duration_ns();
      stack_.push_back({&*span, span->duration_ns(), PartWithin(*span)});
      if (stack_.size() > 1) stack_[stack_.size() - 2].own_ns -= span->duration_ns();
      end_ns = std::max(end_ns, span->end_ns);
    }
    CloseUntil(INT64_MAX);
    split_.total_s = Seconds(end_ns - first->begin_ns);
    split_[Part::kOther] += std::max(0.0, split_.total_s - Seconds(covered_ns));
    split_.begin_ns = begin_ns_ = first->begin_ns;
    end_ns_ = end_ns;
  }

  const std::vector<Interval>& input_waits() const { return input_waits_; }
  Interval whole() const { return {begin_ns_, end_ns_}; }

 private:
  struct Open {
    const Span* span;
    int64_t own_ns;
    Part part;
  };

  void CountWarmUp(const TracedThread& thread, const Span& first) {
    for (const Span& span : thread.spans) {
      if (&span == &first) return;
      if (span.name != step_) continue;
      ++split_.warm_up_steps;
      split_.warm_up_s += Seconds(span.duration_ns());
    }
  }

  // Whatever happens inside a test or a checkpoint belongs to it.
  Part PartWithin(const Span& span) const {
    const Part outer = stack_.empty() ? Part::kOther : stack_.back().part;
    if (outer == Part::kEvaluation || outer == Part::kCheckpoint) return outer;
    if (span.name == send_ || span.name == wait_) return Part::kNetwork;
    return span.cat == Cat::kOp ? outer : PartOf(span.cat);
  }

  void CloseUntil(int64_t time_ns) {
    while (!stack_.empty() && stack_.back().span->end_ns <= time_ns) {
      Count(stack_.back());
      stack_.pop_back();
    }
  }

  void Count(const Open& open) {
    const Span& span = *open.span;
    const double own_s = Seconds(std::max<int64_t>(0, open.own_ns));
    if (span.name == step_) CountStep(span);
    if (span.name == send_ && open.part == Part::kNetwork) {
      ++split_.exchanges;
      send_end_ns_ = span.end_ns;
      split_.saved_without_network_s += own_s;
      split_.sent_bytes += static_cast<double>(process_.Arg(span, bytes_, 0));
      split_.exchanged_keys += static_cast<double>(process_.Arg(span, keys_, 0));
    }
    if (span.name == wait_ && open.part == Part::kNetwork) return CountWait(span, own_s);
    if (open.part == Part::kInput) input_waits_.push_back({span.begin_ns, span.end_ns});
    if (open.part == Part::kNetwork && span.name != send_) split_.saved_without_network_s += own_s;
    split_[open.part] += own_s;
  }

  void CountStep(const Span& span) {
    const int64_t rows = process_.Arg(span, rows_, -1);
    if (rows < 0) return;  // the end of the data
    ++split_.steps;
    split_.rows += static_cast<uint64_t>(rows);
  }

  // The reply says how long the server worked and how long it waited for others. What the worker
  // did meanwhile hides the beginning of that, never its end.
  void CountWait(const Span& span, double wait_s) {
    split_.received_bytes += static_cast<double>(process_.Arg(span, bytes_, 0));
    const double all_barrier_s = Seconds(std::max<int64_t>(0, process_.Arg(span, barrier_ns_, 0)));
    const double all_server_s = Seconds(std::max<int64_t>(0, process_.Arg(span, server_ns_, 0)));
    CountSavings(span, wait_s, all_server_s, all_barrier_s);
    const double barrier_s = std::min(wait_s, all_barrier_s);
    const double server_s = std::min(wait_s - barrier_s, all_server_s);
    split_[Part::kBarrier] += barrier_s;
    split_[Part::kServer] += server_s;
    split_[Part::kNetwork] += wait_s - barrier_s - server_s;
    if (barrier_s <= 0) return;
    BarrierWaits& waits = split_.barriers[process_.Arg(span, straggler_, -1)];
    waits.seconds += barrier_s;
    ++waits.waits;
  }

  // An exchange takes network, server and barrier time; the worker's own work since it was sent
  // hides so much of their sum.
  void CountSavings(const Span& span, double wait_s, double server_s, double barrier_s) {
    const double hidden_s = send_end_ns_ < 0 ? 0 : Seconds(span.begin_ns - send_end_ns_);
    const double network_s = std::max(0.0, hidden_s + wait_s - server_s - barrier_s);
    const auto saved_s = [&](double left_s) {
      return std::max(0.0, wait_s - std::max(0.0, left_s - hidden_s));
    };
    split_.saved_without_network_s += saved_s(server_s + barrier_s);
    split_.saved_without_server_s += saved_s(network_s + barrier_s + server_share_ * server_s);
    split_.saved_without_barrier_s += saved_s(network_s + server_s);
    send_end_ns_ = -1;
  }

  const ProcessData& process_;
  const double server_share_;
  StepSplit& split_;
  int64_t send_end_ns_ = -1;  // of the exchange on its way; -1: none
  const uint32_t step_, save_, send_, wait_, rows_, keys_, bytes_, server_ns_, barrier_ns_,
      straggler_;
  std::vector<Open> stack_;
  std::vector<Interval> input_waits_;
  int64_t begin_ns_ = 0, end_ns_ = 0;
};

int64_t Overlap(const Interval& a, const Interval& b) {
  return std::max<int64_t>(0, std::min(a.end_ns, b.end_ns) - std::max(a.begin_ns, b.begin_ns));
}

struct InputWork {
  double disk_s = 0, decode_s = 0;  // while the training thread waited
};

// As if all were as quick as the quickest tenth.
double QuickSum(std::vector<int64_t>& durations) {
  const auto tenth = durations.begin() + static_cast<ptrdiff_t>(durations.size() / 10);
  std::nth_element(durations.begin(), tenth, durations.end());
  return Seconds(*tenth) * static_cast<double>(durations.size());
}

// What the other threads did, in all and during the waits (ordered and apart from each other).
InputWork CountInputThread(const ProcessData& process, const TracedThread& thread,
                           const Interval& whole, const std::vector<Interval>& waits,
                           uint32_t bytes, StepSplit& split) {
  InputWork work;
  std::map<uint32_t, std::vector<int64_t>> durations;  // of decoding, by name
  bool any = false;
  size_t wait = 0;
  for (const Span& span : thread.spans) {
    if (span.cat != Cat::kInput && span.cat != Cat::kDisk) continue;
    const Interval interval{span.begin_ns, span.end_ns};
    if (Overlap(interval, whole) == 0) continue;
    any = true;
    const bool disk = span.cat == Cat::kDisk;
    (disk ? split.read_busy_s : split.decode_busy_s) += Seconds(Overlap(interval, whole));
    if (!disk) durations[span.name].push_back(Overlap(interval, whole));
    if (disk) split.read_bytes += static_cast<double>(process.Arg(span, bytes, 0));
    while (wait < waits.size() && waits[wait].end_ns <= interval.begin_ns) ++wait;
    for (size_t w = wait; w < waits.size() && waits[w].begin_ns < interval.end_ns; ++w) {
      (disk ? work.disk_s : work.decode_s) += Seconds(Overlap(interval, waits[w]));
    }
  }
  for (auto& [name, all] : durations) split.decode_quick_s += QuickSum(all);
  split.input_threads += any;
  return work;
}

void SplitInput(const RunData& run, const ProcessData& process, const TracedThread& training,
                const Interval& whole, const std::vector<Interval>& waits, StepSplit& split) {
  InputWork sum;
  for (const TracedThread& thread : process.threads) {
    // Test data is read once, beside the training: not a step's input.
    if (&thread == &training || thread.name.starts_with("test")) continue;
    const InputWork work =
        CountInputThread(process, thread, whole, waits, run.names.Find("bytes"), split);
    sum.disk_s += work.disk_s;
    sum.decode_s += work.decode_s;
  }
  if (sum.disk_s == 0) return;
  const double disk = split[Part::kInput] * sum.disk_s / (sum.disk_s + sum.decode_s);
  split[Part::kDisk] += disk;
  split[Part::kInput] -= disk;
}

// Blocks of a dense model go beside the training thread.
void CountDenseTraffic(const RunData& run, const ProcessData& process, const Interval& whole,
                       StepSplit& split) {
  const uint32_t push = run.names.Find("push_dense"), pull = run.names.Find("pull_dense");
  const uint32_t bytes = run.names.Find("bytes");
  for (const TracedThread& thread : process.threads) {
    for (const Span& span : thread.spans) {
      if (span.name != push && span.name != pull) continue;
      if (Overlap({span.begin_ns, span.end_ns}, whole) == 0) continue;
      (span.name == push ? split.sent_bytes : split.received_bytes) +=
          static_cast<double>(process.Arg(span, bytes, 0));
    }
  }
}

// How a column grew between two moments, by the samples around them.
double GrowthBetween(const ProcessData& process, const char* column, const Interval& whole) {
  const size_t n = process.num_samples();
  if (n < 2) return 0;
  const auto& times = process.samples.at("time_ns");
  const auto& values = process.samples.at(column);
  const auto at = [&](int64_t ns) {
    const auto time = static_cast<double>(ns);
    const auto later =
        std::clamp<ptrdiff_t>(std::lower_bound(times.begin(), times.end(), time) - times.begin(), 1,
                              static_cast<ptrdiff_t>(n) - 1);
    const auto i = static_cast<size_t>(later);
    const double gap = times[i] - times[i - 1];
    const double share = gap > 0 ? std::clamp((time - times[i - 1]) / gap, 0.0, 1.0) : 0;
    return values[i - 1] + share * (values[i] - values[i - 1]);
  };
  return at(whole.end_ns) - at(whole.begin_ns);
}

double CpuBetween(const ProcessData& process, const Interval& whole) {
  return GrowthBetween(process, "user_s_total", whole) +
         GrowthBetween(process, "system_s_total", whole);
}

// The host's cores, and what other processes than the run's took of their time.
void CountOthers(const ProcessData& process, const Interval& whole, StepSplit& split) {
  const double busy_s = GrowthBetween(process, "host_busy_s_total", whole);
  split.host_core_s = busy_s + GrowthBetween(process, "host_idle_s_total", whole);
  split.others_cpu_s = std::max(0.0, busy_s - split.host_cpu_s);
}

}  // namespace

const char* PartName(Part part) {
  constexpr const char* kNames[kParts] = {"input wait", "disk",       "compute",
                                          "network",    "server",     "barrier wait",
                                          "evaluation", "checkpoint", "other"};
  return kNames[static_cast<size_t>(part)];
}

std::optional<StepSplit> SplitSteps(const RunData& run, const ProcessData& process,
                                    double server_share) {
  const TracedThread* thread = TrainingThread(run, process);
  if (!thread) return std::nullopt;
  StepSplit split;
  split.process = process.name;
  Splitter splitter(run, process, server_share, split);
  splitter.Go(*thread);
  SplitInput(run, process, *thread, splitter.whole(), splitter.input_waits(), split);
  CountDenseTraffic(run, process, splitter.whole(), split);
  split.cpu_s = CpuBetween(process, splitter.whole());
  for (const ProcessData& other : run.processes) {
    if (other.host == process.host) split.host_cpu_s += CpuBetween(other, splitter.whole());
  }
  CountOthers(process, splitter.whole(), split);
  return split;
}

StepSplit MeanSplit(const std::vector<StepSplit>& splits) {
  StepSplit mean;
  if (splits.empty()) return mean;
  if (splits.size() == 1) return splits.front();
  const auto n = static_cast<double>(splits.size());
  mean.process = std::to_string(splits.size()) + " workers";
  for (const StepSplit& split : splits) {
    mean.total_s += split.total_s / n;
    for (size_t p = 0; p < kParts; ++p) mean.seconds[p] += split.seconds[p] / n;
    for (const auto& [worker, waits] : split.barriers) {
      mean.barriers[worker].seconds += waits.seconds / n;
      mean.barriers[worker].waits += waits.waits / n;
    }
    mean.steps += split.steps;
    mean.rows += split.rows;
    mean.input_threads += split.input_threads;
    mean.decode_busy_s += split.decode_busy_s;
    mean.decode_quick_s += split.decode_quick_s;
    mean.read_busy_s += split.read_busy_s;
    mean.read_bytes += split.read_bytes;
    mean.exchanges += split.exchanges;
    mean.exchanged_keys += split.exchanged_keys;
    mean.sent_bytes += split.sent_bytes;
    mean.received_bytes += split.received_bytes;
    mean.cpu_s += split.cpu_s;
    mean.host_cpu_s += split.host_cpu_s / n;
    mean.host_core_s += split.host_core_s / n;
    mean.others_cpu_s += split.others_cpu_s / n;
    mean.saved_without_network_s += split.saved_without_network_s / n;
    mean.saved_without_server_s += split.saved_without_server_s / n;
    mean.saved_without_barrier_s += split.saved_without_barrier_s / n;
  }
  return mean;
}

std::vector<ServerLoad> ServerLoads(const RunData& run) {
  int64_t warm_ns = INT64_MIN;
  for (const ProcessData& process : run.processes) {
    if (const TracedThread* thread = TrainingThread(run, process))
      warm_ns = std::max(warm_ns, FirstStep(process, *thread, run.names.Find("step"))->begin_ns);
  }
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
        const double seconds = Seconds(span.duration_ns());
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
    load.total_s = Seconds(end - begin);
    loads.push_back(load);
  }
  return loads;
}

}  // namespace millrace::tools
