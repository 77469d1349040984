// SPDX-License-Identifier: Apache-2.0
// The machine that a run is on.
#pragma once

#include <cstdint>
#include <string>

namespace millrace::trainer {

struct HostInfo {
  std::string name;
  std::string cpu;  // "Intel(R) Xeon(R) Processor"; empty if unknown
  unsigned cores = 0;
  uint64_t memory_bytes = 0;
};

HostInfo DescribeHost();

}  // namespace millrace::trainer
