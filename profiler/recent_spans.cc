#include "profiler/recent_spans.h"

#include <cstdio>

#include "profiler/trace.h"

namespace millrace::profiler {
namespace {

constexpr size_t kNewest = 4000;  // of each thread

}  // namespace

RecentSpans::RecentSpans(const std::string& run_dir, const std::string& process)
    : watched_(run_dir + "/" + kWatchedFile), path_(run_dir + "/recent-" + process + ".json") {}

RecentSpans::~RecentSpans() { std::remove(path_.c_str()); }

void RecentSpans::WriteIfAskedFor() {
  struct stat status {};
  if (!TracingOn() || ::stat(watched_.c_str(), &status) != 0) return;
  const timespec& time = status.st_mtim;
  if (time.tv_sec == asked_.tv_sec && time.tv_nsec == asked_.tv_nsec) return;
  asked_ = time;
  const std::string text = RecentTrace(kNewest);
  const std::string temporary = path_ + ".tmp";
  std::FILE* file = std::fopen(temporary.c_str(), "we");
  if (!file) return;
  const bool whole = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = std::fclose(file) == 0;
  if (!whole || !closed || std::rename(temporary.c_str(), path_.c_str()) != 0)
    std::remove(temporary.c_str());
}

}  // namespace millrace::profiler
