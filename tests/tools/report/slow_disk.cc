// SPDX-License-Identifier: Apache-2.0
// A disk of a chosen speed, for programs that are started with this library preloaded: read(2) of a
// regular file takes as long as a disk would that delivers the number of bytes per second that the
// file "slow_disk.rate" next to the library states. Reads of several threads wait for each other.

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>

namespace {

double BytesPerSecond() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(&BytesPerSecond), &info) == 0) return 1e12;
  std::string path = info.dli_fname;
  path = path.substr(0, path.rfind('/')) + "/slow_disk.rate";
  double rate = 1e12;
  std::ifstream(path) >> rate;
  return rate;
}

void WaitForDisk(size_t bytes) {
  static const double rate = BytesPerSecond();
  static std::mutex disk;
  std::lock_guard lock(disk);
  std::this_thread::sleep_for(std::chrono::duration<double>(static_cast<double>(bytes) / rate));
}

}  // namespace

extern "C" ssize_t read(int fd, void* buffer, size_t size) {
  static const auto real =
      reinterpret_cast<ssize_t (*)(int, void*, size_t)>(::dlsym(RTLD_NEXT, "read"));
  const ssize_t got = real(fd, buffer, size);
  constexpr ssize_t kSmall = 16384;  // too small to delay
  struct stat status {};
  if (got > kSmall && ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
    WaitForDisk(static_cast<size_t>(got));
  return got;
}
