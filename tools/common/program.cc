// SPDX-License-Identifier: Apache-2.0
#include "tools/common/program.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>

#include "tools/common/flags.h"

namespace millrace::tools {
namespace {

volatile std::sig_atomic_t interrupted = 0;

void HandleSignal(int signal_number) {
  interrupted = 1;
  std::signal(signal_number, SIG_DFL);
}

const char* program_name = "";  // for the terminate handler, which has no arguments

// Opens a folder, which can neither be read nor written, in place of closed standard streams.
void KeepClosedStreamsClosed() {
  int fd = ::open("/", O_RDONLY | O_DIRECTORY);
  while (fd >= 0 && fd <= STDERR_FILENO) fd = ::dup(fd);
  if (fd > STDERR_FILENO) ::close(fd);
}

// A core dump does not help if memory is exhausted. Every other error aborts with one.
void ExitOnBadAlloc() {
  try {
    if (const std::exception_ptr error = std::current_exception()) std::rethrow_exception(error);
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "%s: not enough memory\n", program_name);
    std::_Exit(kExitFailure);
  } catch (...) {
  }
  std::abort();
}

}  // namespace

void CatchInterrupts() {
  std::signal(SIGINT, HandleSignal);
  std::signal(SIGTERM, HandleSignal);
}

bool Interrupted() { return interrupted != 0; }

void IgnoreBrokenPipes() { std::signal(SIGPIPE, SIG_IGN); }

int ProgramMain(const char* name, int (*run)(const std::vector<std::string>& words), int argc,
                char** argv) {
  KeepClosedStreamsClosed();
  program_name = name;
  std::set_terminate(ExitOnBadAlloc);
  return CheckedStatus(name, run({argv + 1, argv + argc}));
}

int CheckedStatus(const char* name, int status) {
  errno = 0;
  if (status != 0 || (std::fflush(stdout) == 0 && std::ferror(stdout) == 0)) return status;
  if (errno == 0) errno = EIO;  // an earlier write failed
  return Fail(name, IoError("cannot write standard output", errno));
}

}  // namespace millrace::tools
