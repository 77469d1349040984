// SPDX-License-Identifier: Apache-2.0
// A slow server, for a millrace-ps that is started with this library preloaded: every
// pthread_mutex_lock takes as many microseconds longer as the file "slow_locks.us" next to the
// library states. A server locks its shard a few times for each request.

#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

#include <cstdio>
#include <cstring>

namespace {

long Microseconds() {
  Dl_info info{};
  char path[4096];
  if (::dladdr(reinterpret_cast<void*>(&Microseconds), &info) == 0) return 0;
  std::snprintf(path, sizeof path, "%s", info.dli_fname);
  char* const slash = std::strrchr(path, '/');
  if (!slash) return 0;
  std::snprintf(slash, sizeof path - static_cast<size_t>(slash - path), "/slow_locks.us");
  long microseconds = 0;
  if (std::FILE* file = std::fopen(path, "r")) {
    if (std::fscanf(file, "%ld", &microseconds) != 1) microseconds = 0;
    std::fclose(file);
  }
  return microseconds;
}

thread_local bool inside = false;  // reading the file locks a mutex as well

}  // namespace

extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) {
  static const auto real =
      reinterpret_cast<int (*)(pthread_mutex_t*)>(::dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  if (!inside) {
    inside = true;
    static const long microseconds = Microseconds();
    timespec pause{.tv_sec = 0, .tv_nsec = microseconds * 1000};
    if (microseconds > 0) ::nanosleep(&pause, nullptr);
    inside = false;
  }
  return real(mutex);
}
