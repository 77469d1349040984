// SPDX-License-Identifier: Apache-2.0
// Run folders with synthetic traces that have the span names of real ones.
#pragma once

#include <cstdio>
#include <string>

#include "tests/support/test_files.h"

namespace millrace::report {

// One process's trace file. Times in microseconds.
class SyntheticTrace {
 public:
  // `offset_ns` and `origin_ns` as a trace states them.
  explicit SyntheticTrace(int64_t offset_ns = 0, int64_t origin_ns = 0)
      : offset_ns_(offset_ns), origin_ns_(origin_ns) {}

  void Span(int tid, const std::string& name, const std::string& cat, double begin, double duration,
            const std::string& args = "") {
    Add("{\"ph\":\"X\",\"cat\":\"" + cat + "\",\"name\":\"" + name + "\"" + Place(tid, begin) +
        ",\"dur\":" + std::to_string(duration) + ",\"args\":{" + args + "}}");
  }
  void Flow(int tid, bool out, const std::string& id, double time) {
    Add(std::string("{\"ph\":\"") + (out ? "s" : "f") +
        "\",\"cat\":\"flow\",\"name\":\"exchange\"" + ",\"id\":\"" + id + "\"" + Place(tid, time) +
        ",\"args\":{}}");
  }
  void Counter(const std::string& name, double time, int value) {
    Add("{\"ph\":\"C\",\"cat\":\"counter\",\"name\":\"" + name + "\"" + Place(1, time) +
        ",\"args\":{\"value\":" + std::to_string(value) + "}}");
  }
  void Thread(int tid, const std::string& name) {
    Add("{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":" + std::to_string(tid) +
        ",\"args\":{\"name\":\"" + name + "\"}}");
  }

  // Of the whole run, where a window of them is traced.
  void SetSteps(int steps) { steps_ = steps; }

  std::string Text() const {
    return "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[" + events_ +
           "],\"otherData\":{\"process\":\"x\",\"pid\":\"7\",\"dropped_spans\":\"0\"," +
           "\"steps\":\"" + std::to_string(steps_) + "\"," + "\"clock_offset_ns\":\"" +
           std::to_string(offset_ns_) + "\",\"steady_origin_ns\":\"" + std::to_string(origin_ns_) +
           "\"}}";
  }
  void Write(const test::TemporaryFolder& folder, const std::string& process) const {
    test::WriteFile(folder / ("trace-" + process + ".json"), Text());
  }

 private:
  static std::string Place(int tid, double time) {
    return ",\"pid\":1,\"tid\":" + std::to_string(tid) + ",\"ts\":" + std::to_string(time);
  }
  void Add(const std::string& event) { events_ += (events_.empty() ? "" : ",\n") + event; }

  int64_t offset_ns_, origin_ns_;
  int steps_ = 0;
  std::string events_;
};

}  // namespace millrace::report
