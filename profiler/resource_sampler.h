// A thread that writes the resource usage of the process and its host to a CSV file, several times
// a second.
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
  std::FILE* file_;
  const int period_ms_;
  const std::function<void()> after_sample_;
  std::mutex mu_;  // only for the wait
  std::condition_variable_any wake_;
  std::jthread thread_;  // last: it stops before other members are destroyed
};

}  // namespace millrace::profiler
