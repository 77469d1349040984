#include "profiler/resource_sampler.h"

#include <cerrno>
#include <chrono>
#include <cstring>

#include "profiler/resources.h"
#include "profiler/trace.h"

namespace millrace::profiler {
namespace {

// Whole lines, at once: a reader of the growing file sees no half of one, and a killed process
// loses none.
void WriteLine(std::FILE* file, const std::string& line) {
  std::fwrite(line.data(), 1, line.size(), file);
  std::fflush(file);
}

}  // namespace

std::unique_ptr<ResourceSampler> ResourceSampler::Start(const std::string& path, int period_ms,
                                                        std::string& error) {
  std::FILE* file = std::fopen(path.c_str(), "we");
  if (!file) {
    error = path + ": " + std::strerror(errno);
    return nullptr;
  }
  WriteLine(file, ResourcesCsvHeader());
  return std::make_unique<ResourceSampler>(Private{}, file, period_ms);
}

ResourceSampler::ResourceSampler(Private, std::FILE* file, int period_ms)
    : file_(file),
      period_ms_(period_ms),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

ResourceSampler::~ResourceSampler() {
  thread_.request_stop();
  thread_.join();
  std::fclose(file_);
}

void ResourceSampler::Run(const std::stop_token& stop) {
  NameThread("sampler");
  ResourceReader reader;
  auto next = std::chrono::steady_clock::now();
  std::unique_lock lock(mu_);
  while (true) {
    const bool last = stop.stop_requested();
    lock.unlock();
    WriteLine(file_, ResourcesCsvLine(reader.Read(), ClockOffsetNs()));
    lock.lock();
    if (last) return;
    next += std::chrono::milliseconds(period_ms_);
    wake_.wait_until(lock, stop, next, [&] { return stop.stop_requested(); });
  }
}

}  // namespace millrace::profiler
