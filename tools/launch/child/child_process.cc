#include "tools/launch/child/child_process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <utility>

namespace millrace::tools {
namespace {

// Our end does not block, and neither end is inherited by accident.
Status MakePipe(UniqueFd& ours, UniqueFd& theirs, bool we_read) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return IoError("cannot make a pipe", errno);
  ours = UniqueFd(fds[we_read ? 0 : 1]);
  theirs = UniqueFd(fds[we_read ? 1 : 0]);
  ::fcntl(ours.get(), F_SETFL, O_NONBLOCK);
  return {};
}

// The settings of a child: a group of its own, no signal blocked or ignored.
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

  void Become(const UniqueFd& ours, int theirs) {
    ::posix_spawn_file_actions_adddup2(&files_, ours.get(), theirs);
  }
  int Spawn(pid_t& pid, char* const* argv) const {
    return ::posix_spawn(&pid, argv[0], &files_, &attributes_, argv, ::environ);
  }

 private:
  posix_spawn_file_actions_t files_;
  posix_spawnattr_t attributes_;
};

}  // namespace

Result<ChildProcess> ChildProcess::Start(const Words& command) {
  ChildProcess child;
  UniqueFd in, out, err;
  RETURN_IF_ERROR(MakePipe(child.control_, in, false));
  RETURN_IF_ERROR(MakePipe(child.out_, out, true));
  RETURN_IF_ERROR(MakePipe(child.err_, err, true));
  SpawnSettings settings;
  settings.Become(in, STDIN_FILENO);
  settings.Become(out, STDOUT_FILENO);
  settings.Become(err, STDERR_FILENO);
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
      if (errno != EAGAIN) control_.Close();  // the child is gone, as its exit status will say
      return;
    }
  }
}

}  // namespace millrace::tools
