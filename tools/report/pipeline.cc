// SPDX-License-Identifier: Apache-2.0
#include "tools/report/pipeline.h"

#include <algorithm>
#include <cmath>

namespace millrace::report {
namespace {

// What is left of a slice.
struct Work {
  double cpu_s = 0, blocked_s = 0;

  double sum() const { return cpu_s + blocked_s; }
};

Work WorkLeft(const PipelineSlice& slice, const PerCause& left) {
  Work work = {slice.cpu_s, slice.blocked_s};
  for (size_t c = 0; c < kCauses; ++c) {
    const auto cause = static_cast<Cause>(c);
    const double saved_s = slice.saved_s[cause] * (1 - left[cause]);
    const bool is_cpu = cause == Cause::kTraining || cause == Cause::kEvaluation;
    double& own_s = is_cpu ? work.cpu_s : work.blocked_s;
    double& other_s = is_cpu ? work.blocked_s : work.cpu_s;
    const double own_saved_s = std::min(saved_s, own_s);
    own_s -= own_saved_s;
    other_s = std::max(0.0, other_s - (saved_s - own_saved_s));
  }
  return work;
}

double InputWork(const Pipeline& pipeline, const PerCause& left) {
  double sum_s = 0;
  for (size_t c = 0; c < kInputCauses; ++c) {
    const auto cause = static_cast<Cause>(c);
    sum_s += pipeline.input_s[cause] * left[cause];
  }
  return sum_s;
}

// Work of which a share needs a core.
struct Demand {
  double cpu = 0, blocked = 1;  // sum 1

  // The seconds that a second of the work takes at this speed of the cores.
  double Stretch(double speed) const { return cpu / speed + blocked; }
  // How much of a core a thread wants that does nothing else.
  double Wanted(double speed) const { return cpu > 0 ? cpu / speed / Stretch(speed) : 0; }
};

struct Host {
  double cores = 0, others = 0;

  // The share of a core that each thread gets that wants one: `threads` of the input and the
  // training thread. Threads that wait for a core longer are there more often.
  double Speed(double threads, const Demand& input, const Demand& training) const {
    if (cores <= 0) return 1;
    const auto wanted = [&](double speed) {
      return others + threads * input.Wanted(speed) + training.Wanted(speed);
    };
    if (wanted(1) <= cores) return 1;
    constexpr int kRounds = 20;
    double low = 1e-3, high = 1;
    for (int round = 0; round < kRounds; ++round) {
      const double middle = (low + high) / 2;
      (middle * wanted(middle) > cores ? high : low) = middle;
    }
    return low;
  }
};

}  // namespace

const char* CauseName(Cause cause) {
  constexpr const char* kNames[kCauses] = {
      "reading",    "decompression", "decoding", "key split", "training",       "evaluation",
      "checkpoint", "network",       "server",   "barrier",   "other processes"};
  return kNames[static_cast<size_t>(cause)];
}

WhatIf WhatIf::Without(Cause cause) {
  WhatIf what_if;
  what_if.left[cause] = 0;
  return what_if;
}

WhatIf WhatIf::WithoutInput() {
  WhatIf what_if;
  for (size_t c = 0; c < kInputCauses; ++c) what_if.left[static_cast<Cause>(c)] = 0;
  return what_if;
}

namespace {

// The queue between the input threads and the training thread, slice by slice.
class Simulation {
 public:
  Simulation(const Pipeline& pipeline, const WhatIf& what_if)
      : pipeline_(pipeline),
        what_if_(what_if),
        slices_(static_cast<double>(pipeline.slices.size())),
        threads_(std::max(1.0, pipeline.input_threads + what_if.more_input_threads)),
        host_{pipeline.cores, pipeline.other_threads * what_if.left[Cause::kOtherProcesses]} {
    input_s_ = InputWork(pipeline, what_if.left) / slices_;
    const double reading_s =
        pipeline.input_s[Cause::kReading] * what_if.left[Cause::kReading] / slices_;
    if (input_s_ <= 0) return;
    input_.blocked = std::min(1.0, reading_s * (1 - pipeline.reading_cpu_share) / input_s_);
    input_.cpu = 1 - input_.blocked;
  }

  PipelineTime Run() {
    const double alone = input_s_ > 0 ? host_.Speed(threads_, input_, {}) : 1;
    Fill(alone);
    double cpu_s = input_s_ * slices_ * input_.cpu;
    for (size_t i = 0; i < pipeline_.slices.size(); ++i) {
      const double next = static_cast<double>(i) + 1;
      if (ready_ < next) {
        Wait((next - ready_) / Rate(alone));
        ready_ = next;
      }
      const Work work = WorkLeft(pipeline_.slices[i], what_if_.left);
      cpu_s += work.cpu_s;
      if (work.sum() > 0) Train(work, std::min(slices_, next + pipeline_.queue_slices));
    }
    if (input_s_ > 0) time_.seconds = std::max(time_.seconds, slices_ / Rate(alone));
    // All work of the run on this host needs its cores.
    if (pipeline_.cores > 0) {
      const double server_s = (1 - what_if_.left[Cause::kServer]) * pipeline_.server_cpu_s;
      const double all_s = cpu_s + pipeline_.background_s - server_s;
      time_.seconds = std::max(time_.seconds, all_s / pipeline_.cores);
    }
    constexpr double kLeast = 1e-3;  // of the run's time: no prediction is better than that
    time_.seconds = std::max({time_.seconds, kLeast * pipeline_.measured_s, 1e-9});
    return time_;
  }

 private:
  // Slices per second that all input threads prepare.
  double Rate(double speed) const { return threads_ / input_.Stretch(speed) / input_s_; }

  void Wait(double seconds) {
    time_.seconds += seconds;
    time_.input_wait_s += seconds;
  }

  // Each thread prepares the first group alone, and all are ready at the same time.
  void Fill(double speed) {
    if (input_s_ <= 0) {
      ready_ = slices_;
      return;
    }
    if (!pipeline_.starts_empty) {
      ready_ = 1;  // a part of the work, which is done later
      return;
    }
    Wait(std::min(pipeline_.group_slices, slices_) * input_s_ * input_.Stretch(speed));
    ready_ = std::min(slices_, threads_ * pipeline_.group_slices);
  }

  // Until `most` slices are ready all input threads work beside the training thread, then only as
  // many as there is room for.
  void Train(const Work& work, double most) {
    const Demand training = {work.cpu_s / work.sum(), work.blocked_s / work.sum()};
    const double room = std::max(0.0, most - ready_);
    const double threads = room > 0 && input_s_ > 0 ? threads_ : 0;
    double speed = SpeedBeside(threads, training);
    double seconds = work.sum() * training.Stretch(speed);
    if (threads > 0 && Rate(speed) * seconds <= room) {
      ready_ += Rate(speed) * seconds;
    } else {
      constexpr int kRounds = 6;
      for (int round = 0; round < kRounds && host_.cores > 0 && threads > 0; ++round) {
        const double busy = room * input_s_ * input_.Stretch(speed) / seconds;
        speed = host_.Speed(std::min(threads, busy), input_, training);
        seconds = work.sum() * training.Stretch(speed);
      }
      ready_ = std::max(ready_, most);
    }
    time_.seconds += seconds;
  }

  // Most slices are alike.
  double SpeedBeside(double threads, const Demand& training) {
    if (training.cpu != known_training_ || threads != known_threads_) {
      known_training_ = training.cpu;
      known_threads_ = threads;
      known_speed_ = host_.Speed(threads, input_, training);
    }
    return known_speed_;
  }

  const Pipeline& pipeline_;
  const WhatIf& what_if_;
  const double slices_, threads_;
  const Host host_;
  double input_s_ = 0;  // of a slice
  Demand input_;
  double ready_ = 0;  // slices that the input threads have prepared
  double known_training_ = -1, known_threads_ = -1, known_speed_ = 1;
  PipelineTime time_;
};

}  // namespace

PipelineTime RunPipeline(const Pipeline& pipeline, const WhatIf& what_if) {
  return pipeline.slices.empty() ? PipelineTime() : Simulation(pipeline, what_if).Run();
}

void Calibrate(Pipeline& pipeline) {
  constexpr int kRounds = 20;
  constexpr double kLeast = 0.7, kMost = 64;
  // Where the training thread hardly waits, the run does not tell how fast the input could be.
  constexpr double kLittle = 0.25, kTooLong = 1.1;
  const bool waits = pipeline.measured_wait_s > kLittle * pipeline.measured_s;
  if (!waits && RunPipeline(pipeline).seconds <= kTooLong * pipeline.measured_s) return;
  const auto scaled_by = [&](double factor) {
    Pipeline scaled = pipeline;
    for (double& seconds : scaled.input_s.values) seconds *= factor;
    return scaled;
  };
  // The largest factor at which `is_short` still holds.
  const auto solve = [&](const auto& is_short) {
    double low = kLeast, high = kMost;
    for (int round = 0; round < kRounds; ++round) {
      const double middle = std::sqrt(low * high);
      (is_short(RunPipeline(scaled_by(middle))) ? low : high) = middle;
    }
    return std::sqrt(low * high);
  };
  // Neither the time nor the share of the waits may be more than those of the run.
  const double share = pipeline.measured_wait_s / std::max(1e-9, pipeline.measured_s);
  const double factor = std::min(
      solve([&](const PipelineTime& time) { return time.seconds < pipeline.measured_s; }),
      solve([&](const PipelineTime& time) { return time.input_wait_s < share * time.seconds; }));
  pipeline = scaled_by(factor);
}

double PredictedSeconds(const Pipeline& pipeline, const WhatIf& what_if) {
  return pipeline.measured_s * RunPipeline(pipeline, what_if).seconds /
         std::max(1e-9, RunPipeline(pipeline).seconds);
}

}  // namespace millrace::report
