// The newest spans of a process that goes on, for whoever looks at its run: a change of
// RUN_DIR/watched asks for them, and within a sample's time they are in recent-<process>.json
// (Chrome trace JSON, written whole). Nothing is written while nobody looks.
#pragma once

#include <sys/stat.h>

#include <string>

namespace millrace::profiler {

inline constexpr char kWatchedFile[] = "watched";

// Not thread-safe.
class RecentSpans {
 public:
  RecentSpans(const std::string& run_dir, const std::string& process);
  // Leaves no file behind: the whole trace takes its place.
  ~RecentSpans();
  RecentSpans(const RecentSpans&) = delete;
  RecentSpans& operator=(const RecentSpans&) = delete;

  // A failure is passed over: it is the next one's turn then.
  void WriteIfAskedFor();

 private:
  const std::string watched_;
  const std::string path_;
  timespec asked_ = {};  // when the last one was
};

}  // namespace millrace::profiler
