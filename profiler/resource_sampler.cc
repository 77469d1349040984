#include "profiler/resource_sampler.h"

#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "profiler/resources.h"
#include "profiler/trace.h"

namespace millrace::profiler {
std::unique_ptr<ResourceSampler> ResourceSampler::Start(const std::string& path, int period_ms,
                                                        std::string& error,
                                                        std::function<void()> after_sample) {
  std::FILE* file = std::fopen(path.c_str(), "we");
  if (!file) {
    error = path + ": " + std::strerror(errno);
    return nullptr;
  }
  std::fputs(ResourcesCsvHeader().c_str(), file);
  return std::make_unique<ResourceSampler>(Private{}, path, file, period_ms,
                                           std::move(after_sample));
}

ResourceSampler::ResourceSampler(Private, std::string path, std::FILE* file, int period_ms,
                                 std::function<void()> after_sample)
    : path_(std::move(path)),
      file_(file),
      period_ms_(period_ms),
      after_sample_(std::move(after_sample)),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

ResourceSampler::~ResourceSampler() {
  thread_.request_stop();
  thread_.join();
  std::fclose(file_);
}

// Writes whole lines at once: a reader of the growing file sees complete lines, and a killed
// process loses none. The chief of a job may erase an earlier run after this process has started;
// the file is then created again.
void ResourceSampler::WriteLine(const std::string& line) {
  struct stat status {};
  if (::fstat(::fileno(file_), &status) == 0 && status.st_nlink == 0) {
    if (std::FILE* again = std::fopen(path_.c_str(), "we")) {
      std::fclose(file_);
      file_ = again;
      std::fputs(ResourcesCsvHeader().c_str(), file_);
    }
  }
  std::fwrite(line.data(), 1, line.size(), file_);
  std::fflush(file_);
}

void ResourceSampler::Run(const std::stop_token& stop) {
  NameThread("sampler");
  ResourceReader reader;
  auto next = std::chrono::steady_clock::now();
  std::unique_lock lock(mu_);
  while (true) {
    const bool last = stop.stop_requested();
    lock.unlock();
    WriteLine(ResourcesCsvLine(reader.Read(), ClockOffsetNs()));
    if (after_sample_) after_sample_();
    lock.lock();
    if (last) return;
    next += std::chrono::milliseconds(period_ms_);
    wake_.wait_until(lock, stop, next, [&] { return stop.stop_requested(); });
  }
}

}  // namespace millrace::profiler
