// SPDX-License-Identifier: Apache-2.0
#include "tools/common/program.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <stdexcept>
#include <system_error>

#include "io/base/huge_array.h"
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

constexpr unsigned long long kMegabyte = 1 << 20;

// What the limit of address space counts. Allocates no memory.
unsigned long long MappedBytes() {
  char text[64] = "";
  const int fd = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  [[maybe_unused]] const ssize_t size = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  return std::strtoull(text, nullptr, 10) * static_cast<unsigned long long>(::getpagesize());
}

// At once, because several threads may run out of memory.
void PrintMemory(const char* what) {
  rlimit limit = {};
  ::getrlimit(RLIMIT_AS, &limit);
  const bool limited = limit.rlim_cur != RLIM_INFINITY;
  const auto pages = static_cast<unsigned long long>(::sysconf(_SC_PHYS_PAGES));
  const auto page_bytes = static_cast<unsigned long long>(::getpagesize());
  std::fprintf(
      stderr, "%s: not enough memory: %s; %llu MB are mapped, %s %llu MB\n", program_name, what,
      MappedBytes() / kMegabyte, limited ? "the limit (ulimit -v) is" : "the host has",
      (limited ? static_cast<unsigned long long>(limit.rlim_cur) : pages * page_bytes) / kMegabyte);
}

// Runs if an exception leaves main or a thread. A core dump does not help if memory or threads are
// exhausted; every other error aborts with one.
void ExitOnException() {
  try {
    if (const std::exception_ptr error = std::current_exception()) std::rethrow_exception(error);
  } catch (const AllocationError& error) {
    PrintMemory(error.what());
    std::_Exit(kExitFailure);
  } catch (const std::bad_alloc&) {
    PrintMemory("an allocation failed");
    std::_Exit(kExitFailure);
  } catch (const std::length_error& error) {  // a size beyond the address space
    PrintMemory(error.what());
    std::_Exit(kExitFailure);
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::resource_unavailable_try_again) {
      PrintMemory("cannot start a thread; memory or the number of threads (ulimit -u) is limited");
      std::_Exit(kExitFailure);
    }
    std::fprintf(stderr, "%s: %s\n", program_name, error.what());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", program_name, error.what());
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
  std::set_terminate(ExitOnException);
  return CheckedStatus(name, run({argv + 1, argv + argc}));
}

int CheckedStatus(const char* name, int status) {
  errno = 0;
  if (status != 0 || (std::fflush(stdout) == 0 && std::ferror(stdout) == 0)) return status;
  if (errno == 0) errno = EIO;  // an earlier write failed
  return Fail(name, IoError("cannot write standard output", errno));
}

}  // namespace millrace::tools
