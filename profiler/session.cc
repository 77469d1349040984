// SPDX-License-Identifier: Apache-2.0
#include "profiler/session.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "profiler/resources.h"
#include "profiler/trace.h"

namespace millrace::profiler {
namespace {

constexpr size_t kRecentEvents = 4000;  // per thread

}  // namespace

int NewFile(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return -1;
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
}

std::unique_ptr<ResourceSampler> ResourceSampler::Start(const std::string& path, int period_ms,
                                                        std::string& error,
                                                        std::function<void()> after_sample) {
  const int fd = NewFile(path);
  if (fd < 0) {
    error = path + ": " + std::strerror(errno);
    return nullptr;
  }
  return std::make_unique<ResourceSampler>(Private{}, path, fd, period_ms, std::move(after_sample));
}

ResourceSampler::ResourceSampler(Private, std::string path, int fd, int period_ms,
                                 std::function<void()> after_sample)
    : path_(std::move(path)),
      fd_(fd),
      period_ms_(period_ms),
      after_sample_(std::move(after_sample)),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

ResourceSampler::~ResourceSampler() {
  thread_.request_stop();
  thread_.join();
  ::close(fd_);
}

// Writes whole lines at once: a reader of the growing file sees complete lines, and a killed
// process loses none. The chief of a job may erase an earlier run after this process has started;
// the file is then created again. A line that does not fit on a full disk is left out, and so is
// the header, until both fit.
void ResourceSampler::WriteLine(const std::string& line) {
  struct stat status {};
  if (::fstat(fd_, &status) == 0 && status.st_nlink == 0) {
    if (const int again = NewFile(path_); again >= 0) {
      ::close(fd_);
      fd_ = again;
      status.st_size = 0;
    }
  }
  const std::string text = status.st_size == 0 ? ResourcesCsvHeader() + line : line;
  const ssize_t written = ::write(fd_, text.data(), text.size());
  if (written <= 0 || static_cast<size_t>(written) == text.size()) return;
  [[maybe_unused]] const int best_effort = ::ftruncate(fd_, status.st_size);
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

RecentSpans::RecentSpans(const std::string& run_dir, const std::string& process)
    : watched_(run_dir + "/" + kWatchedFile), path_(run_dir + "/recent-" + process + ".json") {}

RecentSpans::~RecentSpans() { std::remove(path_.c_str()); }

void RecentSpans::WriteIfRequested() {
  struct stat status {};
  if (!TracingOn() || ::stat(watched_.c_str(), &status) != 0) return;
  const timespec& time = status.st_mtim;
  if (time.tv_sec == last_request_.tv_sec && time.tv_nsec == last_request_.tv_nsec) return;
  last_request_ = time;
  const std::string text = RecentTrace(kRecentEvents);
  const std::string temporary = path_ + ".tmp";
  const int fd = NewFile(temporary);
  if (fd < 0) return;
  const bool whole = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const bool closed = ::close(fd) == 0;
  if (!whole || !closed || std::rename(temporary.c_str(), path_.c_str()) != 0)
    std::remove(temporary.c_str());
}

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
                               error, [this] { recent_->WriteIfRequested(); });
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
