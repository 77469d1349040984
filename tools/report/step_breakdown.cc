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
// span (without its inner spans) to a part and to a slice of the pipeline.
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

  void Go(const TracedThread& thread, std::vector<Span>::const_iterator first) {
    MakeSlices(thread, first);
    int64_t end_ns = first->begin_ns;
    for (auto span = first; span != thread.spans.end() && span->name != save_; ++span) {
      CloseUntil(span->begin_ns);
      steps_begun_ += span->name == step_;
      if (stack_.empty()) CountGap(span->begin_ns - end_ns);
      stack_.push_back({&*span, span->duration_ns(), PartWithin(*span), slice()});
      if (stack_.size() > 1) stack_[stack_.size() - 2].own_ns -= span->duration_ns();
      end_ns = std::max(end_ns, span->end_ns);
    }
    CloseUntil(INT64_MAX);
    CountHiddenExchanges();
    breakdown_.total_s = Seconds(end_ns - first->begin_ns);
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
    size_t slice;
  };

  struct Hidden {
    PipelineSlice* slice;
    double overlap_s, known_s;
  };

  void MakeSlices(const TracedThread& thread, std::vector<Span>::const_iterator first) {
    const auto steps = static_cast<size_t>(std::count_if(
        first, thread.spans.end(), [&](const Span& span) { return span.name == step_; }));
    steps_per_slice_ = (steps + kMostSlices - 1) / kMostSlices;
    breakdown_.pipeline.slices.resize((steps + steps_per_slice_ - 1) / steps_per_slice_);
  }

  size_t slice() const { return (std::max<size_t>(steps_begun_, 1) - 1) / steps_per_slice_; }

  void CountGap(int64_t gap_ns) {
    if (gap_ns <= 0) return;
    breakdown_[Part::kOther] += Seconds(gap_ns);
    breakdown_.pipeline.slices[slice()].cpu_s += Seconds(gap_ns);
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
      breakdown_.sent_bytes += static_cast<double>(process_.Arg(span, bytes_, 0));
      breakdown_.exchanged_keys += static_cast<double>(process_.Arg(span, keys_, 0));
    }
    if (span.name == wait_ && open.part == Part::kNetwork)
      return CountWait(span, own_s, breakdown_.pipeline.slices[open.slice]);
    CountEvent(open);
    if (open.part == Part::kInput) input_waits_.push_back({span.begin_ns, span.end_ns});
    breakdown_[open.part] += own_s;
    AddTo(breakdown_.pipeline.slices[open.slice], open.part, own_s);
  }

  // An evaluation or checkpoint, of which `open` is not an inner span.
  void CountEvent(const Open& open) {
    const Part outer = stack_.size() < 2 ? Part::kOther : stack_[stack_.size() - 2].part;
    if (open.part == outer) return;
    const double seconds = Seconds(open.span->duration_ns());
    if (open.part == Part::kEvaluation) breakdown_.evaluations_s.push_back(seconds);
    if (open.part == Part::kCheckpoint) breakdown_.checkpoints_s.push_back(seconds);
  }

  static void AddTo(PipelineSlice& slice, Part part, double own_s) {
    switch (part) {
      case Part::kInput:
      case Part::kDisk:
        slice.saved_s[Cause::kDecoding] += own_s;  // CompletePipeline decides who does it
        return;
      case Part::kCompute:
        slice.saved_s[Cause::kTraining] += own_s;
        break;
      case Part::kEvaluation:
        slice.saved_s[Cause::kEvaluation] += own_s;
        break;
      case Part::kCheckpoint:
        slice.saved_s[Cause::kCheckpoint] += own_s;
        break;
      case Part::kNetwork:
        slice.saved_s[Cause::kNetwork] += own_s;
        break;
      case Part::kServer:
        slice.saved_s[Cause::kServer] += own_s;
        break;
      case Part::kBarrier:
        slice.saved_s[Cause::kBarrier] += own_s;
        break;
      case Part::kOther:
        break;
    }
    const bool is_cpu = part == Part::kCompute || part == Part::kEvaluation || part == Part::kOther;
    (is_cpu ? slice.cpu_s : slice.blocked_s) += own_s;
  }

  void CountStep(const Span& span) {
    const int64_t rows = process_.Arg(span, rows_, -1);
    if (rows < 0) return;  // the step found the end of the data
    ++breakdown_.steps;
    breakdown_.rows += static_cast<uint64_t>(rows);
  }

  // The reply has the time that the server worked and the time that it waited for other workers.
  // The worker's own work overlaps with the beginning of that time, never with its end.
  void CountWait(const Span& span, double wait_s, PipelineSlice& slice) {
    breakdown_.received_bytes += static_cast<double>(process_.Arg(span, bytes_, 0));
    const double all_barrier_s = Seconds(std::max<int64_t>(0, process_.Arg(span, barrier_ns_, 0)));
    const double all_server_s = Seconds(std::max<int64_t>(0, process_.Arg(span, server_ns_, 0)));
    CountSavings(span, wait_s, all_server_s, all_barrier_s, slice);
    const double barrier_s = std::min(wait_s, all_barrier_s);
    const double server_s = std::min(wait_s - barrier_s, all_server_s);
    breakdown_[Part::kBarrier] += barrier_s;
    breakdown_[Part::kServer] += server_s;
    breakdown_[Part::kNetwork] += wait_s - barrier_s - server_s;
    slice.blocked_s += wait_s;
    if (barrier_s <= 0) return;
    BarrierWaits& waits = breakdown_.barriers[process_.Arg(span, straggler_, -1)];
    waits.seconds += barrier_s;
    ++waits.waits;
  }

  // An exchange takes network, server and barrier time. The worker's own work since it was sent
  // overlaps with that sum.
  void CountSavings(const Span& span, double wait_s, double server_s, double barrier_s,
                    PipelineSlice& slice) {
    const double overlap_s = send_end_ns_ < 0 ? 0 : Seconds(span.begin_ns - send_end_ns_);
    const double network_s = std::max(0.0, overlap_s + wait_s - server_s - barrier_s);
    const auto saved_s = [&](double left_s) {
      return std::max(0.0, wait_s - std::max(0.0, left_s - overlap_s));
    };
    slice.saved_s[Cause::kNetwork] += saved_s(server_s + barrier_s);
    slice.saved_s[Cause::kServer] += saved_s(network_s + barrier_s + server_share_ * server_s);
    slice.saved_s[Cause::kBarrier] += saved_s(network_s + server_s);
    // Computing that hides an exchange saves nothing: its end would be waited for.
    constexpr double kNoWait = 0.05;  // of the overlap
    if (wait_s > kNoWait * overlap_s) {
      slice.saved_s[Cause::kTraining] -= overlap_s;
      waited_network_s_ += network_s;
      ++waited_;
    } else {
      hidden_.push_back({&slice, overlap_s, server_s + barrier_s});
    }
    send_end_ns_ = -1;
  }

  // Exchanges that nobody waited for take as long on the network as the others.
  void CountHiddenExchanges() {
    const double network_s = waited_ > 0 ? waited_network_s_ / waited_ : 0;
    for (const Hidden& hidden : hidden_)
      hidden.slice->saved_s[Cause::kTraining] -=
          std::min(hidden.overlap_s, hidden.known_s + network_s);
  }

  static constexpr size_t kMostSlices = 2000;

  const ProcessData& process_;
  const double server_share_;
  StepBreakdown& breakdown_;
  int64_t send_end_ns_ = -1;  // of the exchange in transit; -1: none
  const uint32_t step_, save_, send_, wait_, rows_, keys_, bytes_, server_ns_, barrier_ns_,
      straggler_;
  std::vector<Open> stack_;
  std::vector<Interval> input_waits_;
  int64_t begin_ns_ = 0, end_ns_ = 0;
  size_t steps_per_slice_ = 1, steps_begun_ = 0;
  std::vector<Hidden> hidden_;  // exchanges
  double waited_network_s_ = 0, waited_ = 0;
};

bool TracedFromTheStart(const RunData& run) {
  const auto window = run.run.find("flags.profile_steps");
  return window == run.run.end() || window->second.empty() || window->second.starts_with("0:");
}

// At the start the input fills its buffers, and memory is touched for the first time: steps take
// several times as long as later on. The number of such steps from `first` on, if they take much of
// the traced time.
size_t CountStartUp(const RunData& run, const TracedThread& thread,
                    std::vector<Span>::const_iterator first, StepBreakdown& breakdown) {
  constexpr size_t kMinSteps = 20;
  constexpr size_t kMostSteps = 10;   // one step in ten
  constexpr double kLong = 5;         // times the mean of later steps: the mean of the start-up
  constexpr double kLongStep = 2;     // the same: its last step
  constexpr double kMinShare = 0.25;  // of the time
  if (!TracedFromTheStart(run)) return 0;
  const uint32_t step = run.names.Find("step");
  std::vector<double> durations;
  int64_t end_ns = first->begin_ns;
  for (auto span = first; span != thread.spans.end(); ++span) {
    end_ns = std::max(end_ns, span->end_ns);
    if (span->name == step) durations.push_back(Seconds(span->duration_ns()));
  }
  if (durations.size() < kMinSteps) return 0;
  const double total_s = Seconds(end_ns - first->begin_ns);
  const size_t most = durations.size() / kMostSteps;
  const auto later = durations.begin() + static_cast<ptrdiff_t>(most);
  const double usual_s =
      std::accumulate(later, durations.end(), 0.0) / static_cast<double>(durations.size() - most);
  if (durations[0] < kLong * usual_s) return 0;
  double sum_s = 0;
  for (size_t s = 0; s < most; ++s) {
    sum_s += durations[s];
    const bool is_long = durations[s] >= kLongStep * usual_s &&
                         sum_s >= kLong * usual_s * static_cast<double>(s + 1);
    if (!is_long || sum_s < kMinShare * total_s) continue;
    breakdown.start_up_steps = s + 1;
    breakdown.start_up_s = sum_s;
    breakdown.start_up_share = sum_s / total_s;
  }
  return breakdown.start_up_steps;
}

void CountWarmUp(const RunData& run, const TracedThread& thread, const Span& first,
                 StepBreakdown& breakdown) {
  for (const Span& span : thread.spans) {
    if (&span == &first) return;
    if (span.name != run.names.Find("step")) continue;
    ++breakdown.warm_up_steps;
    breakdown.warm_up_s += Seconds(span.duration_ns());
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

// The stages of a span of an input thread; nothing for spans that are no stage.
std::optional<Cause> StageOf(const RunData& run, const Span& span) {
  const std::string& name = run.names[span.name];
  if (name == "decompress") return Cause::kDecompression;
  if (name == "compact") return Cause::kKeySplit;
  if (span.cat == Cat::kDisk || name == "remote_read") return Cause::kReading;
  if (span.cat == Cat::kInput) return Cause::kDecoding;
  return std::nullopt;
}

// Adds the work of an input thread to `breakdown`, and its work during `waits` to `waited_s`. The
// time of a span belongs to its stage without the time of the stages inside.
void CountInputThread(const RunData& run, const ProcessData& process, const TracedThread& thread,
                      const Interval& whole, const Waits& waits, PerCause& waited_s,
                      StepBreakdown& breakdown) {
  const uint32_t bytes = run.names.Find("bytes");
  std::vector<std::pair<int64_t, Cause>> open;  // end and stage
  bool any = false;
  for (const Span& span : thread.spans) {
    const std::optional<Cause> stage = StageOf(run, span);
    const Interval interval{span.begin_ns, span.end_ns};
    const int64_t within_ns = Overlap(interval, whole);
    if (!stage || within_ns == 0) continue;
    any = true;
    while (!open.empty() && open.back().first <= span.begin_ns) open.pop_back();
    const double wait_s = Seconds(waits.Within(interval));
    breakdown.input_busy_s[*stage] += Seconds(within_ns);
    waited_s[*stage] += wait_s;
    if (!open.empty()) {
      breakdown.input_busy_s[open.back().second] -= Seconds(within_ns);
      waited_s[open.back().second] -= wait_s;
    }
    const bool is_inner = !open.empty();
    open.emplace_back(span.end_ns, *stage);
    if (span.cat == Cat::kDisk && !is_inner)
      breakdown.read_bytes += static_cast<double>(process.Arg(span, bytes, 0));
  }
  breakdown.input_threads += any;
}

void AddInput(const RunData& run, const ProcessData& process, const TracedThread& training,
              const Interval& whole, const Waits& waits, StepBreakdown& breakdown) {
  PerCause waited_s;
  for (const TracedThread& thread : process.threads) {
    // Test data is read once, in parallel to the training: it is not the input of a step.
    if (&thread == &training || thread.name.starts_with("evaluat")) continue;
    CountInputThread(run, process, thread, whole, waits, waited_s, breakdown);
  }
  double all_s = 0;
  for (double& seconds : breakdown.input_busy_s.values) seconds = std::max(0.0, seconds);
  for (const double seconds : waited_s.values) all_s += std::max(0.0, seconds);
  const double reading_s = std::max(0.0, waited_s[Cause::kReading]);
  if (reading_s == 0) return;
  const double disk = breakdown[Part::kInput] * reading_s / all_s;
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

// The CPU time that a thread had used at a time, interpolated between samples.
double ThreadCpuAt(const ProcessData& process, const ProcessData::ThreadTimes& thread,
                   double time_ns) {
  const auto times = process.samples.find("time_ns");
  if (times == process.samples.end() || thread.times.empty()) return 0;
  const auto time_of = [&](const ProcessData::ThreadTime& t) { return times->second[t.sample]; };
  const auto after = std::find_if(thread.times.begin(), thread.times.end(),
                                  [&](const auto& t) { return time_of(t) >= time_ns; });
  if (after == thread.times.end()) return thread.times.back().cpu_s;
  if (after == thread.times.begin()) return after->cpu_s;
  const ProcessData::ThreadTime& before = *std::prev(after);
  const double span_ns = time_of(*after) - time_of(before);
  const double part = span_ns > 0 ? (time_ns - time_of(before)) / span_ns : 1;
  return before.cpu_s + part * (after->cpu_s - before.cpu_s);
}

void CountThreadCpu(const ProcessData& process, const Interval& whole, StepBreakdown& breakdown) {
  for (const auto& [tid, thread] : process.thread_samples) {
    const double cpu_s =
        std::max(0.0, ThreadCpuAt(process, thread, static_cast<double>(whole.end_ns)) -
                          ThreadCpuAt(process, thread, static_cast<double>(whole.begin_ns)));
    if (tid == process.pid) breakdown.training_cpu_s += cpu_s;
    if (thread.name == "input") breakdown.input_cpu_s += cpu_s;
  }
}

// The time of the host's cores, and the part that processes of other programs used.
void CountOtherProcesses(const ProcessData& process, const Interval& whole,
                         StepBreakdown& breakdown) {
  const double busy_s = Growth(process, "host_busy_s_total", whole.begin_ns, whole.end_ns);
  breakdown.host_core_s =
      busy_s + Growth(process, "host_idle_s_total", whole.begin_ns, whole.end_ns);
  breakdown.others_cpu_s = std::max(0.0, busy_s - breakdown.host_cpu_s);
}

// The slices of a group of rows: about a thousand of them, or one batch.
double GroupSlices(const StepBreakdown& breakdown) {
  constexpr double kGroupRows = 1000;
  if (breakdown.rows == 0) return 1;
  const auto rows = static_cast<double>(breakdown.rows);
  const double step_rows = rows / static_cast<double>(std::max<uint64_t>(1, breakdown.steps));
  return std::max(kGroupRows, step_rows) * static_cast<double>(breakdown.pipeline.slices.size()) /
         rows;
}

// How many times as long the work of threads takes as it would with a core for each: the threads of
// the run and of other programs share the cores.
struct Sharing {
  double training = 1, input = 1, mean = 1;
};

// 1 if there are enough cores, or without samples.
Sharing SharingOf(const StepBreakdown& breakdown) {
  constexpr double kBusy = 0.85;    // of the host's cores
  constexpr double kEnough = 0.05;  // of the time, that a thread must compute to tell
  Sharing sharing;
  const double busy_s = breakdown.host_cpu_s + breakdown.others_cpu_s;
  if (breakdown.cpu_s <= 0 || busy_s < kBusy * breakdown.host_core_s) return sharing;
  const double training_s =
      breakdown[Part::kCompute] + breakdown[Part::kEvaluation] + breakdown[Part::kOther];
  const double input_s = breakdown.input_busy() - breakdown.input_busy_s[Cause::kReading];
  double wall_s = 0, cpu_s = 0;
  const auto add = [&](double thread_wall_s, double thread_cpu_s, double& ratio) {
    if (thread_wall_s <= kEnough * breakdown.total_s || thread_cpu_s <= 0) return;
    ratio = std::max(1.0, thread_wall_s / thread_cpu_s);
    wall_s += thread_wall_s;
    cpu_s += std::min(thread_wall_s, thread_cpu_s);
  };
  add(training_s, breakdown.training_cpu_s, sharing.training);
  add(input_s, breakdown.input_cpu_s, sharing.input);
  if (cpu_s > 0) sharing.mean = wall_s / cpu_s;
  return sharing;
}

// The work of the input threads at full speed. Returns the CPU time of reading: a read from the
// page cache computes, one from a disk waits.
double AddInputWork(const StepBreakdown& breakdown, double sharing, Pipeline& pipeline) {
  PerCause& input_s = pipeline.input_s = breakdown.input_busy_s;
  double compute_s = 0;
  for (const Cause cause : {Cause::kDecompression, Cause::kDecoding, Cause::kKeySplit})
    compute_s += input_s[cause] /= sharing;
  double& reading_s = input_s[Cause::kReading];
  const double cpu_s = std::clamp(breakdown.input_cpu_s - compute_s, 0.0, reading_s / sharing);
  reading_s = std::max(cpu_s, reading_s - (sharing - 1) * cpu_s);
  pipeline.reading_cpu_share = reading_s > 0 ? std::min(1.0, cpu_s / reading_s) : 1;
  return cpu_s;
}

// Waits for input are the work of the input threads, which the model simulates. Without any trace
// of them they are waits like others.
void PlaceInputWaits(const StepBreakdown& breakdown, Pipeline& pipeline) {
  const double groups = static_cast<double>(pipeline.slices.size()) / pipeline.group_slices;
  const double group_s = breakdown.input_busy() / std::max(1.0, groups);
  pipeline.starts_empty = pipeline.slices.front().saved_s[Cause::kDecoding] > group_s / 4;
  for (PipelineSlice& slice : pipeline.slices) {
    if (breakdown.input_busy() > 0) {
      slice.saved_s[Cause::kDecoding] = 0;
    } else {
      slice.blocked_s += slice.saved_s[Cause::kDecoding];
    }
  }
}

// The rest of the pipeline, from the other members.
void CompletePipeline(const RunData& run, StepBreakdown& breakdown) {
  Pipeline& pipeline = breakdown.pipeline;
  const double total_s = std::max(1e-9, breakdown.total_s);
  pipeline.measured_s = breakdown.total_s;
  pipeline.measured_wait_s = breakdown.input_s();
  pipeline.input_threads = static_cast<double>(std::max<size_t>(1, breakdown.input_threads));
  pipeline.group_slices = GroupSlices(breakdown);
  // The queue has four groups more than threads.
  pipeline.queue_slices = std::max(1.0, (pipeline.input_threads + 4) * pipeline.group_slices);
  PlaceInputWaits(breakdown, pipeline);
  const Sharing sharing = SharingOf(breakdown);
  double training_s = 0;
  for (PipelineSlice& slice : pipeline.slices) {
    slice.saved_s[Cause::kTraining] =
        std::max(0.0, slice.saved_s[Cause::kTraining]) / sharing.training;
    slice.saved_s[Cause::kEvaluation] /= sharing.training;
    slice.cpu_s /= sharing.training;
    training_s += slice.cpu_s;
  }
  const double read_cpu_s = AddInputWork(breakdown, sharing.input, pipeline);
  double cores = run.Number("host.cores");
  if (cores <= 0) cores = breakdown.host_core_s / total_s;
  if (breakdown.host_cpu_s > 0 && cores > 0) {
    const double input_s = pipeline.input_s[Cause::kDecompression] +
                           pipeline.input_s[Cause::kDecoding] + pipeline.input_s[Cause::kKeySplit] +
                           read_cpu_s;
    pipeline.cores = cores;
    pipeline.other_threads = breakdown.others_cpu_s / total_s * sharing.mean;
    pipeline.background_s =
        std::max(0.0, breakdown.host_cpu_s - std::max(training_s, breakdown.training_cpu_s) -
                          std::max(input_s, breakdown.input_cpu_s));
    pipeline.server_cpu_s = std::min(pipeline.background_s, breakdown.server_cpu_s);
  }
  Calibrate(pipeline);
}

}  // namespace

const char* PartName(Part part) {
  constexpr const char* kNames[kParts] = {"input wait", "disk",       "compute",
                                          "network",    "server",     "barrier wait",
                                          "evaluation", "checkpoint", "other"};
  return kNames[static_cast<size_t>(part)];
}

double StepBreakdown::input_busy() const {
  return std::accumulate(input_busy_s.values.begin(), input_busy_s.values.end(), 0.0);
}

std::optional<StepBreakdown> MakeStepBreakdown(const RunData& run, const ProcessData& process,
                                               double server_share) {
  const TracedThread* thread = TrainingThread(run, process);
  if (!thread) return std::nullopt;
  StepBreakdown breakdown;
  breakdown.process = process.name;
  const uint32_t step = run.names.Find("step");
  auto first = FirstStep(process, *thread, step);
  CountWarmUp(run, *thread, *first, breakdown);
  size_t start_up = CountStartUp(run, *thread, first, breakdown);
  first = std::find_if(first, thread->spans.end(),
                       [&](const Span& span) { return span.name == step && start_up-- == 0; });
  BreakdownBuilder builder(run, process, server_share, breakdown);
  builder.Go(*thread, first);
  const Interval whole = builder.whole();
  AddInput(run, process, *thread, whole, Waits(builder.input_waits()), breakdown);
  CountDenseTraffic(run, process, whole, breakdown);
  breakdown.cpu_s = CpuBetween(process, whole);
  CountThreadCpu(process, whole, breakdown);
  for (const ProcessData& other : run.processes) {
    if (other.host != process.host) continue;
    const double cpu_s = CpuBetween(other, whole);
    breakdown.host_cpu_s += cpu_s;
    if (other.is_server()) breakdown.server_cpu_s += (1 - server_share) * cpu_s;
  }
  CountOtherProcesses(process, whole, breakdown);
  CompletePipeline(run, breakdown);
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
    mean.start_up_share += breakdown.start_up_share / n;
    mean.steps += breakdown.steps;
    mean.rows += breakdown.rows;
    mean.input_threads += breakdown.input_threads;
    for (size_t c = 0; c < kCauses; ++c)
      mean.input_busy_s.values[c] += breakdown.input_busy_s.values[c];
    mean.read_bytes += breakdown.read_bytes;
    mean.exchanges += breakdown.exchanges;
    mean.exchanged_keys += breakdown.exchanged_keys;
    mean.sent_bytes += breakdown.sent_bytes;
    mean.received_bytes += breakdown.received_bytes;
    mean.cpu_s += breakdown.cpu_s;
    mean.host_cpu_s += breakdown.host_cpu_s / n;
    mean.host_core_s += breakdown.host_core_s / n;
    mean.others_cpu_s += breakdown.others_cpu_s / n;
    mean.training_cpu_s += breakdown.training_cpu_s / n;
    mean.input_cpu_s += breakdown.input_cpu_s / n;
    mean.server_cpu_s += breakdown.server_cpu_s / n;
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
