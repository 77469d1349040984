// Time, passed in, so that tests can make their own.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

#include "profiler/clock.h"

namespace millrace::ps {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t NowNs() = 0;  // steady
  // Before something is tried again.
  virtual void Pause(int64_t ns) = 0;
};

class RealClock final : public Clock {
 public:
  int64_t NowNs() override { return millrace::NowNs(); }
  void Pause(int64_t ns) override { std::this_thread::sleep_for(std::chrono::nanoseconds(ns)); }
};

}  // namespace millrace::ps
