// The cheapest clock: the processor's time stamp counter if the kernel uses it as its clock, else
// the steady clock. Ticks are converted to nanoseconds of the steady clock later, by linear
// interpolation between two moments at which both were read.
#pragma once

#include <x86intrin.h>

#include <cstdint>
#include <fstream>
#include <string>

#include "profiler/clock.h"

namespace millrace::profiler {

namespace internal {

// Set before main, so that it does not change during a span.
inline const bool counter_is_clock = [] {
  std::ifstream file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  std::string name;
  return file >> name && name == "tsc";
}();

inline int64_t NowTicks() { return counter_is_clock ? static_cast<int64_t>(__rdtsc()) : NowNs(); }

struct ClockPair {
  int64_t ticks = 0;
  int64_t ns = 0;

  static ClockPair Now() { return {NowTicks(), NowNs()}; }
};

class TickLine {
 public:
  TickLine(const ClockPair& a, const ClockPair& b)
      : a_(a),
        ns_per_tick_(b.ticks > a.ticks
                         ? static_cast<double>(b.ns - a.ns) / static_cast<double>(b.ticks - a.ticks)
                         : 1) {}
  int64_t ToNs(int64_t ticks) const {
    return a_.ns + static_cast<int64_t>(static_cast<double>(ticks - a_.ticks) * ns_per_tick_);
  }

 private:
  ClockPair a_;
  double ns_per_tick_;
};

}  // namespace internal
}  // namespace millrace::profiler
