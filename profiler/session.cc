#include "profiler/session.h"

#include <charconv>

namespace millrace::profiler {
namespace {

bool ParseStep(std::string_view text, uint64_t& step) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::string Session::Start(const SessionOptions& options) {
  sampler_.reset();  // its thread uses recent_
  options_ = options;
  SetProcess(options.process);
  NameThread("main");
  if (options.run_dir.empty()) return "";
  const std::string prefix = options.run_dir + "/";
  std::string error;
  if (options.sample_ms > 0) {
    recent_ = std::make_unique<RecentSpans>(options.run_dir, options.process);
    sampler_ =
        ResourceSampler::Start(prefix + "resources-" + options.process + ".csv", options.sample_ms,
                               error, [this] { recent_->WriteIfAskedFor(); });
  }
  if (options.trace) StartTracing(options.trace_options);
  return error;
}

std::string Session::Finish() {
  sampler_.reset();
  recent_.reset();
  if (!options_.trace || options_.run_dir.empty()) return "";
  StopTracing();
  return WriteTrace(options_.run_dir + "/trace-" + options_.process + ".json");
}

std::string ParseStepWindow(const std::string& text, TraceOptions& options) {
  const size_t colon = text.find(':');
  uint64_t first = 0, last = 0;
  if (colon == std::string::npos || !ParseStep({text.data(), colon}, first) ||
      !ParseStep(std::string_view(text).substr(colon + 1), last) || first > last) {
    return "expected FIRST:LAST, two step numbers such as 100:120, found \"" + text + "\"";
  }
  options.first_step = first;
  options.last_step = last;
  return "";
}

}  // namespace millrace::profiler
