#include "tools/report/bottleneck.h"

#include <algorithm>

namespace millrace::tools {
namespace {

double Saved(const std::string& name, double seconds, const StepSplit& split) {
  if (name == "network") return split.saved_without_network_s;
  if (name == "server") return split.saved_without_server_s;
  if (name == "barrier") return split.saved_without_barrier_s;
  return seconds;
}

// What decoding takes at full pace. Threads that rest between batches, because the run waits for
// others, find cold caches each time.
double DecodingTime(const std::string& name, const StepSplit& split) {
  constexpr double kResting = 0.5;  // of the time busy, at most
  const auto threads = static_cast<double>(std::max<size_t>(1, split.input_threads));
  const double busy_s = split.decode_busy_s + split.read_busy_s;
  const bool waits = name == "network" || name == "server" || name == "barrier";
  if (!waits || busy_s > kResting * threads * split.total_s) return split.decode_busy_s;
  return std::min(split.decode_quick_s, split.decode_busy_s);
}

// The input threads go on at their own pace; without the wait for input, they still decode.
double InputFloor(const std::string& name, const StepSplit& split) {
  const auto threads = static_cast<double>(std::max<size_t>(1, split.input_threads));
  const double reading_s = name == "input" ? 0 : split.read_busy_s;
  return (DecodingTime(name, split) + reading_s) / threads;
}

// All the work that is left needs the cores.
double CpuFloor(const std::string& name, const StepSplit& split, double cores) {
  if (cores <= 0) return 0;
  double gone_s = split.decode_busy_s - DecodingTime(name, split);
  if (name == "compute") gone_s += split[Part::kCompute];
  return std::max(0.0, split.host_cpu_s - gone_s) / cores;
}

}  // namespace

double ServerWorkShare(const std::vector<ServerLoad>& servers) {
  double busy_s = 0, work_s = 0;
  for (const ServerLoad& load : servers) {
    busy_s += load.busy_s;
    work_s += load.work_s;
  }
  return busy_s > 0 ? std::clamp(work_s / busy_s, 0.0, 1.0) : 1;
}

double SavedWithoutStraggler(int64_t straggler, const StepSplit& split) {
  BarrierWaits slow, usual;
  for (const auto& [worker, waits] : split.barriers) {
    BarrierWaits& sum = worker == straggler ? slow : usual;
    sum.seconds += waits.seconds;
    sum.waits += waits.waits;
  }
  constexpr double kEnough = 0.05;  // of all waits, to say what is usual
  if (usual.waits < kEnough * (usual.waits + slow.waits)) return slow.seconds;
  return std::max(0.0, slow.seconds - slow.waits * usual.seconds / usual.waits);
}

double SecondsWithout(const std::string& name, double seconds, const StepSplit& split,
                      double cores) {
  const double thread_s = split.total_s - Saved(name, seconds, split);
  return std::max({thread_s, InputFloor(name, split), CpuFloor(name, split, cores), 1e-9});
}

}  // namespace millrace::tools
