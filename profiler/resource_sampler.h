// A thread that writes what the process and its host use to a CSV file, several times a second.
#pragma once

#include <condition_variable>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace millrace::profiler {

class ResourceSampler {
  struct Private {};  // only Start makes samplers

 public:
  ResourceSampler(Private, std::string path, std::FILE* file, int period_ms,
                  std::function<void()> beside);
  // Creates the file with its header and a first sample. Null, and what went wrong in `error`.
  // `beside` is called after each sample, in the sampler's thread.
  static std::unique_ptr<ResourceSampler> Start(const std::string& path, int period_ms,
                                                std::string& error,
                                                std::function<void()> beside = {});
  // Takes a last sample.
  ~ResourceSampler();
  ResourceSampler(const ResourceSampler&) = delete;
  ResourceSampler& operator=(const ResourceSampler&) = delete;

 private:
  void Run(const std::stop_token& stop);
  void WriteLine(const std::string& line);

  const std::string path_;
  std::FILE* file_;
  const int period_ms_;
  const std::function<void()> beside_;
  std::mutex mu_;  // for the wait alone
  std::condition_variable_any wake_;
  std::jthread thread_;  // last: it stops before the rest goes
};

}  // namespace millrace::profiler
