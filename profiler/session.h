// SPDX-License-Identifier: Apache-2.0
// Profiling of a program: one Session object in main.
//
//   Session session;
//   std::string error = session.Start({.run_dir = dir, .process = "worker-0", .trace = true});
//   ...
//   error = session.Finish();     // trace-worker-0.json; the last sample of resources-worker-0.csv
#pragma once

#include <sys/stat.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "profiler/trace.h"

namespace millrace::profiler {

// Creates the file `path` in place of whatever has this name, and does not write through a link or
// into a FIFO. Returns its descriptor, which appends; -1 with errno on failure.
int NewFile(const std::string& path);

// A thread that writes the resource usage of the process and its host to a CSV file, several times
// a second.

class ResourceSampler {
  struct Private {};  // only Start makes samplers

 public:
  ResourceSampler(Private, std::string path, int fd, int period_ms,
                  std::function<void()> after_sample);
  // Creates the file with its header and a first sample. On failure, returns null and sets `error`.
  // The sampler's thread calls `after_sample` after each sample.
  static std::unique_ptr<ResourceSampler> Start(const std::string& path, int period_ms,
                                                std::string& error,
                                                std::function<void()> after_sample = {});
  // Writes a last sample.
  ~ResourceSampler();
  ResourceSampler(const ResourceSampler&) = delete;
  ResourceSampler& operator=(const ResourceSampler&) = delete;

 private:
  void Run(const std::stop_token& stop);
  void WriteLine(const std::string& line);

  const std::string path_;
  int fd_;
  const int period_ms_;
  const std::function<void()> after_sample_;
  std::mutex mu_;  // only for the wait
  std::condition_variable_any wake_;
  std::jthread thread_;  // last: it stops before other members are destroyed
};

// A change of RUN_DIR/watched requests the newest spans of all processes of the run.
inline constexpr char kWatchedFile[] = "watched";

// Writes the newest spans of a running process to recent-<process>.json (Chrome trace JSON,
// atomically) when they are requested, for example by a dashboard. Not thread-safe.
class RecentSpans {
 public:
  RecentSpans(const std::string& run_dir, const std::string& process);
  // Removes the file: the complete trace replaces it.
  ~RecentSpans();
  RecentSpans(const RecentSpans&) = delete;
  RecentSpans& operator=(const RecentSpans&) = delete;

  // Call it periodically. Errors are ignored: the next request tries again.
  void WriteIfRequested();

 private:
  const std::string watched_;
  const std::string path_;
  timespec last_request_ = {};  // modification time of watched_
};

struct SessionOptions {
  std::string run_dir;  // empty: no files, so neither trace nor samples
  std::string process;  // "worker-0", "ps-1"
  bool trace = false;
  TraceOptions trace_options = {};
  int sample_ms = 200;  // 0: no samples
};

class Session {
 public:
  // Both return an empty string or an error message. Start discards an earlier session.
  [[nodiscard]] std::string Start(const SessionOptions& options);
  [[nodiscard]] std::string Finish();

 private:
  SessionOptions options_;
  std::unique_ptr<RecentSpans> recent_;
  std::unique_ptr<ResourceSampler> sampler_;  // last: its thread uses recent_
};

// Parses "A:B", an inclusive range of steps counted from 0, into options. Returns an empty string
// or an error message.
[[nodiscard]] std::string ParseStepWindow(const std::string& text, TraceOptions& options);

}  // namespace millrace::profiler
