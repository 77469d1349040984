// SPDX-License-Identifier: Apache-2.0
#include "tools/report/step_breakdown.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

namespace millrace::report {
namespace {

using profiler::Cat;

struct Interval {
  int64_t begin_ns, end_ns;
};

// The thread with the most steps.
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

// The first step that counts. The first steps may be many times as long as the rest, because the
// memory of servers and workers is touched for the first time. In a window that the user chose, all
// steps count.
std::vector<Span>::const_iterator FirstStep(const ProcessData& process, const TracedThread& thread,
                                            uint32_t step) {
  constexpr size_t kMostWarmUp = 10;  // steps, and at most a tenth of all steps
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
    for (size_t s = 0; s < most && s <= skipped + 1; ++s) {  // one short step in between is allowed
      if (durations[s] / kLong > *middle) skipped = s + 1;
    }
  }
  return std::find_if(thread.spans.begin(), thread.spans.end(),
                      [&](const Span& span) { return span.name == step && skipped-- == 0; });
}

double Seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

// Walks through the spans of a thread with a stack of open spans, and adds the own time of each
// span (without its inner spans) to a part.
class BreakdownBuilder {
 public:
  BreakdownBuilder(const RunData& run, const ProcessData& process, double server_share,
                   StepBreakdown& breakdown)
      : process_(process),
        server_share_(server_share),
        breakdown_(breakdown),
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
    breakdown_.total_s = Seconds(end_ns - first->begin_ns);
    breakdown_[Part::kOther] += std::max(0.0, breakdown_.total_s - Seconds(covered_ns));
    breakdown_.begin_ns = begin_ns_ = first->begin_ns;
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
      ++breakdown_.warm_up_steps;
      breakdown_.warm_up_s += Seconds(span.duration_ns());
    }
  }

  // All spans inside an evaluation or a checkpoint belong to it.
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
      ++breakdown_.exchanges;
      send_end_ns_ = span.end_ns;
      breakdown_.saved_without_network_s += own_s;
      breakdown_.sent_bytes += static_cast<double>(process_.Arg(span, bytes_, 0));
      breakdown_.exchanged_keys += static_cast<double>(process_.Arg(span, keys_, 0));
    }
    if (span.name == wait_ && open.part == Part::kNetwork) return CountWait(span, own_s);
    if (open.part == Part::kInput) input_waits_.push_back({span.begin_ns, span.end_ns});
    if (open.part == Part::kNetwork && span.name != send_)
      breakdown_.saved_without_network_s += own_s;
    breakdown_[open.part] += own_s;
  }

  void CountStep(const Span& span) {
    const int64_t rows = process_.Arg(span, rows_, -1);
    if (rows < 0) return;  // the step found the end of the data
    ++breakdown_.steps;
    breakdown_.rows += static_cast<uint64_t>(rows);
  }

  // The reply has the time that the server worked and the time that it waited for other workers.
  // The worker's own work overlaps with the beginning of that time, never with its end.
  void CountWait(const Span& span, double wait_s) {
    breakdown_.received_bytes += static_cast<double>(process_.Arg(span, bytes_, 0));
    const double all_barrier_s = Seconds(std::max<int64_t>(0, process_.Arg(span, barrier_ns_, 0)));
    const double all_server_s = Seconds(std::max<int64_t>(0, process_.Arg(span, server_ns_, 0)));
    CountSavings(span, wait_s, all_server_s, all_barrier_s);
    const double barrier_s = std::min(wait_s, all_barrier_s);
    const double server_s = std::min(wait_s - barrier_s, all_server_s);
    breakdown_[Part::kBarrier] += barrier_s;
    breakdown_[Part::kServer] += server_s;
    breakdown_[Part::kNetwork] += wait_s - barrier_s - server_s;
    if (barrier_s <= 0) return;
    BarrierWaits& waits = breakdown_.barriers[process_.Arg(span, straggler_, -1)];
    waits.seconds += barrier_s;
    ++waits.waits;
  }

  // An exchange takes network, server and barrier time. The worker's own work since it was sent
  // overlaps with that sum.
  void CountSavings(const Span& span, double wait_s, double server_s, double barrier_s) {
    const double overlap_s = send_end_ns_ < 0 ? 0 : Seconds(span.begin_ns - send_end_ns_);
    const double network_s = std::max(0.0, overlap_s + wait_s - server_s - barrier_s);
    const auto saved_s = [&](double left_s) {
      return std::max(0.0, wait_s - std::max(0.0, left_s - overlap_s));
    };
    breakdown_.saved_without_network_s += saved_s(server_s + barrier_s);
    breakdown_.saved_without_server_s += saved_s(network_s + barrier_s + server_share_ * server_s);
    breakdown_.saved_without_barrier_s += saved_s(network_s + server_s);
    send_end_ns_ = -1;
  }

  const ProcessData& process_;
  const double server_share_;
  StepBreakdown& breakdown_;
  int64_t send_end_ns_ = -1;  // of the exchange in transit; -1: none
  const uint32_t step_, save_, send_, wait_, rows_, keys_, bytes_, server_ns_, barrier_ns_,
      straggler_;
  std::vector<Open> stack_;
  std::vector<Interval> input_waits_;
  int64_t begin_ns_ = 0, end_ns_ = 0;
};

bool TracedFromTheStart(const RunData& run) {
  const auto window = run.run.find("flags.profile_steps");
  return window == run.run.end() || window->second.empty() || window->second.starts_with("0:");
}

// At the start the input fills its buffers, and memory is touched for the first time: steps take
// several times as long as later on.
void CountStartUp(const RunData& run, const ProcessData& process, const TracedThread& thread,
                  StepBreakdown& breakdown) {
  constexpr size_t kMinSteps = 20;
  constexpr size_t kMostSteps = 10;   // one step in ten
  constexpr double kLong = 5;         // times the mean of later steps: the mean of the start-up
  constexpr double kLongStep = 2;     // the same: its last step
  constexpr double kMinShare = 0.25;  // of the time
  if (!TracedFromTheStart(run)) return;
  const uint32_t step = run.names.Find("step");
  std::vector<double> durations;
  for (auto span = FirstStep(process, thread, step); span != thread.spans.end(); ++span) {
    if (span->name == step) durations.push_back(Seconds(span->duration_ns()));
  }
  if (durations.size() < kMinSteps) return;
  const size_t most = durations.size() / kMostSteps;
  const auto later = durations.begin() + static_cast<ptrdiff_t>(most);
  const double usual_s =
      std::accumulate(later, durations.end(), 0.0) / static_cast<double>(durations.size() - most);
  double sum_s = 0;
  for (size_t s = 0; s < most; ++s) {
    sum_s += durations[s];
    const bool is_long = durations[s] >= kLongStep * usual_s &&
                         sum_s >= kLong * usual_s * static_cast<double>(s + 1);
    if (!is_long || sum_s < kMinShare * breakdown.total_s) continue;
    breakdown.start_up_steps = s + 1;
    breakdown.start_up_s = sum_s;
  }
}

int64_t Overlap(const Interval& a, const Interval& b) {
  return std::max<int64_t>(0, std::min(a.end_ns, b.end_ns) - std::max(a.begin_ns, b.begin_ns));
}

// The times at which the training thread waits for input.
class Waits {
 public:
  // `intervals` may overlap.
  explicit Waits(std::vector<Interval> intervals) {
    std::sort(intervals.begin(), intervals.end(),
              [](const Interval& a, const Interval& b) { return a.begin_ns < b.begin_ns; });
    for (const Interval& interval : intervals) {
      if (waits_.empty() || interval.begin_ns > waits_.back().end_ns) {
        waits_.push_back(interval);
      } else {
        waits_.back().end_ns = std::max(waits_.back().end_ns, interval.end_ns);
      }
    }
    for (const Interval& wait : waits_) sums_ns_.push_back(sums_ns_.back() + Length(wait));
  }

  // How long the training thread waits during `interval`.
  int64_t Within(const Interval& interval) const {
    return Before(interval.end_ns) - Before(interval.begin_ns);
  }

 private:
  static int64_t Length(const Interval& interval) { return interval.end_ns - interval.begin_ns; }

  int64_t Before(int64_t time_ns) const {
    const auto after =
        std::upper_bound(waits_.begin(), waits_.end(), time_ns,
                         [](int64_t time, const Interval& wait) { return time < wait.begin_ns; });
    if (after == waits_.begin()) return 0;
    const Interval& last = *std::prev(after);
    const auto earlier = static_cast<size_t>(after - waits_.begin()) - 1;
    return sums_ns_[earlier] + std::min(time_ns, last.end_ns) - last.begin_ns;
  }

  std::vector<Interval> waits_;         // sorted, without overlaps
  std::vector<int64_t> sums_ns_ = {0};  // of the lengths of all earlier waits
};

struct InputWork {
  double disk_s = 0, decode_s = 0;  // while the training thread waits
};

// The sum if all durations were like the fastest tenth.
double FastSum(std::vector<int64_t>& durations) {
  const auto tenth = durations.begin() + static_cast<ptrdiff_t>(durations.size() / 10);
  std::nth_element(durations.begin(), tenth, durations.end());
  return Seconds(*tenth) * static_cast<double>(durations.size());
}

// Adds the work of an input thread to `breakdown`, and returns its work during `waits`.
InputWork CountInputThread(const ProcessData& process, const TracedThread& thread,
                           const Interval& whole, const Waits& waits, uint32_t bytes,
                           StepBreakdown& breakdown) {
  InputWork work;
  std::map<uint32_t, std::vector<int64_t>> durations;  // of decoding, by name
  bool any = false;
  for (const Span& span : thread.spans) {
    if (span.cat != Cat::kInput && span.cat != Cat::kDisk) continue;
    const Interval interval{span.begin_ns, span.end_ns};
    if (Overlap(interval, whole) == 0) continue;
    any = true;
    const bool disk = span.cat == Cat::kDisk;
    (disk ? breakdown.read_busy_s : breakdown.decode_busy_s) += Seconds(Overlap(interval, whole));
    if (!disk) durations[span.name].push_back(Overlap(interval, whole));
    if (disk) breakdown.read_bytes += static_cast<double>(process.Arg(span, bytes, 0));
    (disk ? work.disk_s : work.decode_s) += Seconds(waits.Within(interval));
  }
  for (auto& [name, all] : durations) breakdown.decode_fast_s += FastSum(all);
  breakdown.input_threads += any;
  return work;
}

void AddInput(const RunData& run, const ProcessData& process, const TracedThread& training,
              const Interval& whole, const Waits& waits, StepBreakdown& breakdown) {
  InputWork sum;
  for (const TracedThread& thread : process.threads) {
    // Test data is read once, in parallel to the training: it is not the input of a step.
    if (&thread == &training || thread.name.starts_with("evaluat")) continue;
    const InputWork work =
        CountInputThread(process, thread, whole, waits, run.names.Find("bytes"), breakdown);
    sum.disk_s += work.disk_s;
    sum.decode_s += work.decode_s;
  }
  if (sum.disk_s == 0) return;
  const double disk = breakdown[Part::kInput] * sum.disk_s / (sum.disk_s + sum.decode_s);
  breakdown[Part::kDisk] += disk;
  breakdown[Part::kInput] -= disk;
}

// Other threads than the training thread exchange the blocks of a dense model.
void CountDenseTraffic(const RunData& run, const ProcessData& process, const Interval& whole,
                       StepBreakdown& breakdown) {
  const uint32_t push = run.names.Find("push_dense"), pull = run.names.Find("pull_dense");
  const uint32_t bytes = run.names.Find("bytes");
  for (const TracedThread& thread : process.threads) {
    for (const Span& span : thread.spans) {
      if (span.name != push && span.name != pull) continue;
      if (Overlap({span.begin_ns, span.end_ns}, whole) == 0) continue;
      (span.name == push ? breakdown.sent_bytes : breakdown.received_bytes) +=
          static_cast<double>(process.Arg(span, bytes, 0));
    }
  }
}

double CpuBetween(const ProcessData& process, const Interval& whole) {
  return Growth(process, "user_s_total", whole.begin_ns, whole.end_ns) +
         Growth(process, "system_s_total", whole.begin_ns, whole.end_ns);
}

// The time of the host's cores, and the part that processes of other programs used.
void CountOtherProcesses(const ProcessData& process, const Interval& whole,
                         StepBreakdown& breakdown) {
  const double busy_s = Growth(process, "host_busy_s_total", whole.begin_ns, whole.end_ns);
  breakdown.host_core_s =
      busy_s + Growth(process, "host_idle_s_total", whole.begin_ns, whole.end_ns);
  breakdown.others_cpu_s = std::max(0.0, busy_s - breakdown.host_cpu_s);
}

}  // namespace

const char* PartName(Part part) {
  constexpr const char* kNames[kParts] = {"input wait", "disk",       "compute",
                                          "network",    "server",     "barrier wait",
                                          "evaluation", "checkpoint", "other"};
  return kNames[static_cast<size_t>(part)];
}

std::optional<StepBreakdown> MakeStepBreakdown(const RunData& run, const ProcessData& process,
                                               double server_share) {
  const TracedThread* thread = TrainingThread(run, process);
  if (!thread) return std::nullopt;
  StepBreakdown breakdown;
  breakdown.process = process.name;
  BreakdownBuilder builder(run, process, server_share, breakdown);
  builder.Go(*thread);
  CountStartUp(run, process, *thread, breakdown);
  AddInput(run, process, *thread, builder.whole(), Waits(builder.input_waits()), breakdown);
  CountDenseTraffic(run, process, builder.whole(), breakdown);
  breakdown.cpu_s = CpuBetween(process, builder.whole());
  for (const ProcessData& other : run.processes) {
    if (other.host == process.host) breakdown.host_cpu_s += CpuBetween(other, builder.whole());
  }
  CountOtherProcesses(process, builder.whole(), breakdown);
  return breakdown;
}

StepBreakdown MeanBreakdown(const std::vector<StepBreakdown>& breakdowns) {
  StepBreakdown mean;
  if (breakdowns.empty()) return mean;
  if (breakdowns.size() == 1) return breakdowns.front();
  const auto n = static_cast<double>(breakdowns.size());
  mean.process = std::to_string(breakdowns.size()) + " workers";
  for (const StepBreakdown& breakdown : breakdowns) {
    mean.total_s += breakdown.total_s / n;
    for (size_t p = 0; p < kParts; ++p) mean.seconds[p] += breakdown.seconds[p] / n;
    for (const auto& [worker, waits] : breakdown.barriers) {
      mean.barriers[worker].seconds += waits.seconds / n;
      mean.barriers[worker].waits += waits.waits / n;
    }
    mean.start_up_steps += breakdown.start_up_steps;
    mean.start_up_s += breakdown.start_up_s / n;
    mean.steps += breakdown.steps;
    mean.rows += breakdown.rows;
    mean.input_threads += breakdown.input_threads;
    mean.decode_busy_s += breakdown.decode_busy_s;
    mean.decode_fast_s += breakdown.decode_fast_s;
    mean.read_busy_s += breakdown.read_busy_s;
    mean.read_bytes += breakdown.read_bytes;
    mean.exchanges += breakdown.exchanges;
    mean.exchanged_keys += breakdown.exchanged_keys;
    mean.sent_bytes += breakdown.sent_bytes;
    mean.received_bytes += breakdown.received_bytes;
    mean.cpu_s += breakdown.cpu_s;
    mean.host_cpu_s += breakdown.host_cpu_s / n;
    mean.host_core_s += breakdown.host_core_s / n;
    mean.others_cpu_s += breakdown.others_cpu_s / n;
    mean.saved_without_network_s += breakdown.saved_without_network_s / n;
    mean.saved_without_server_s += breakdown.saved_without_server_s / n;
    mean.saved_without_barrier_s += breakdown.saved_without_barrier_s / n;
  }
  return mean;
}

int64_t WarmUpEndNs(const RunData& run) {
  int64_t end_ns = INT64_MIN;
  for (const ProcessData& process : run.processes) {
    if (const TracedThread* thread = TrainingThread(run, process))
      end_ns = std::max(end_ns, FirstStep(process, *thread, run.names.Find("step"))->begin_ns);
  }
  return end_ns;
}

}  // namespace millrace::report
