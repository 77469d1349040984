// SPDX-License-Identifier: Apache-2.0
#include "trainer/run/host_info.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <thread>

namespace millrace::trainer {
namespace {

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

// "model name\t: Intel(R) ..."
std::string CpuModel() {
  std::ifstream lines("/proc/cpuinfo");
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("model name")) continue;
    const size_t value = line.find(": ");
    return value == std::string::npos ? "" : line.substr(value + 2);
  }
  return "";
}

uint64_t MemoryBytes() {
  const long pages = std::max(sysconf(_SC_PHYS_PAGES), 0L);
  const long page_bytes = std::max(sysconf(_SC_PAGESIZE), 0L);
  return static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes);
}

}  // namespace

HostInfo DescribeHost() {
  return {.name = HostName(),
          .cpu = CpuModel(),
          .cores = std::thread::hardware_concurrency(),
          .memory_bytes = MemoryBytes()};
}

}  // namespace millrace::trainer
