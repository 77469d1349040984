// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/child/child_process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace millrace::launch {
namespace {

// Our end does not block. Both ends are closed on exec.
Status MakePipe(UniqueFd& ours, UniqueFd& theirs, bool we_read) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return IoError("cannot make a pipe", errno);
  ours = UniqueFd(fds[we_read ? 0 : 1]);
  theirs = UniqueFd(fds[we_read ? 1 : 0]);
  ::fcntl(ours.get(), F_SETFL, O_NONBLOCK);
  return {};
}

// A child gets a new process group, with no signal blocked or ignored.
class SpawnSettings {
 public:
  SpawnSettings() {
    ::posix_spawn_file_actions_init(&files_);
    ::posix_spawnattr_init(&attributes_);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnSettings() {
    ::posix_spawn_file_actions_destroy(&files_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  void Redirect(const UniqueFd& ours, int theirs) {
    ::posix_spawn_file_actions_adddup2(&files_, ours.get(), theirs);
  }
  int Spawn(pid_t& pid, char* const* argv) const {
    return ::posix_spawn(&pid, argv[0], &files_, &attributes_, argv, ::environ);
  }

 private:
  posix_spawn_file_actions_t files_;
  posix_spawnattr_t attributes_;
};

// /proc/PID/stat is "PID (name) S PPID ...". The name may contain brackets, so this searches for
// the last one.
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

Result<ChildProcess> ChildProcess::Start(const Words& command) {
  ChildProcess child;
  UniqueFd in, out, err;
  RETURN_IF_ERROR(MakePipe(child.control_, in, false));
  RETURN_IF_ERROR(MakePipe(child.out_, out, true));
  RETURN_IF_ERROR(MakePipe(child.err_, err, true));
  SpawnSettings settings;
  settings.Redirect(in, STDIN_FILENO);
  settings.Redirect(out, STDOUT_FILENO);
  settings.Redirect(err, STDERR_FILENO);
  Words words = command;
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const int error = settings.Spawn(child.pid_, argv.data());
  if (error != 0) return IoError("cannot start " + command[0], error);
  return child;
}

void ChildProcess::WriteControl() {
  while (has_pending()) {
    const ssize_t size = ::write(control(), pending_.data(), pending_.size());
    if (size >= 0) {
      pending_.erase(0, static_cast<size_t>(size));
    } else if (errno != EINTR) {
      if (errno != EAGAIN) control_.Close();  // the child has exited: Reap reports it
      return;
    }
  }
}

void AdoptOrphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); }

void KillDescendants() {
  // The children of a child become ours before the child can be waited for, so each wait is
  // followed by a new search.
  while (true) {
    const pid_t exited = ::waitpid(-1, nullptr, WNOHANG);
    if (exited > 0) continue;
    if (exited < 0 && errno != EINTR) return;
    KillChildren();
    if (::waitpid(-1, nullptr, 0) < 0 && errno != EINTR) return;
  }
}

}  // namespace millrace::launch
