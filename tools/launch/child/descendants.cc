#include "tools/launch/child/descendants.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace millrace::tools {
namespace {

// "PID (name) S PPID ...": the name may hold anything, so the last bracket counts.
pid_t ParentOf(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  std::string line;
  std::getline(file, line);
  const size_t bracket = line.rfind(')');
  if (bracket == std::string::npos || bracket + 4 >= line.size()) return 0;
  return static_cast<pid_t>(std::atol(line.c_str() + bracket + 4));
}

void KillChildren() {
  DIR* processes = ::opendir("/proc");
  if (processes == nullptr) return;
  const pid_t self = ::getpid();
  while (const dirent* entry = ::readdir(processes)) {
    const pid_t pid = static_cast<pid_t>(std::atol(entry->d_name));
    if (pid > 0 && ParentOf(entry->d_name) == self) ::kill(pid, SIGKILL);
  }
  ::closedir(processes);
}

}  // namespace

void AdoptOrphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); }

void KillDescendants() {
  // A child's children become ours before it can be waited for: after every wait there is a fresh
  // look. A process without children does not look at all.
  while (true) {
    const pid_t ended = ::waitpid(-1, nullptr, WNOHANG);
    if (ended > 0) continue;
    if (ended < 0 && errno != EINTR) return;
    KillChildren();
    if (::waitpid(-1, nullptr, 0) < 0 && errno != EINTR) return;
  }
}

}  // namespace millrace::tools
