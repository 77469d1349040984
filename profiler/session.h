// What a program does to be profiled: one object in main.
//
//   Session session;
//   std::string error = session.Start({.run_dir = dir, .process = "worker-0", .trace = true});
//   ...
//   error = session.Finish();     // trace-worker-0.json; the last sample of resources-worker-0.csv
#pragma once

#include <memory>
#include <string>

#include "profiler/recent_spans.h"
#include "profiler/resource_sampler.h"
#include "profiler/trace.h"

namespace millrace::profiler {

struct SessionOptions {
  std::string run_dir;  // empty: no files, so neither trace nor samples
  std::string process;  // "worker-0", "ps-1"
  bool trace = false;
  TraceOptions trace_options = {};
  int sample_ms = 200;  // 0: no samples
};

class Session {
 public:
  // Both return an empty string, or what went wrong. Start forgets an earlier session.
  [[nodiscard]] std::string Start(const SessionOptions& options);
  [[nodiscard]] std::string Finish();

 private:
  SessionOptions options_;
  std::unique_ptr<RecentSpans> recent_;
  std::unique_ptr<ResourceSampler> sampler_;  // last: its thread uses recent_
};

// "A:B", both included and counted from 0, into options. Returns an empty string, or what was
// expected.
[[nodiscard]] std::string ParseStepWindow(const std::string& text, TraceOptions& options);

}  // namespace millrace::profiler
