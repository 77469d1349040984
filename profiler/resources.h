// SPDX-License-Identifier: Apache-2.0
// The resource usage of this process and its host at one moment.
//
// Numbers whose names end in _total count from the start of the process or the host and never
// decrease. A number that the kernel does not provide is 0.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace millrace::profiler {

struct ThreadCpu {
  int64_t tid = 0;
  std::string name;
  double user_s = 0;
  double system_s = 0;
};

struct Resources {
  int64_t steady_ns = 0;
  // The process.
  double user_s_total = 0;
  double system_s_total = 0;
  uint64_t resident_bytes = 0;
  uint64_t peak_resident_bytes = 0;
  uint64_t minor_faults_total = 0;
  uint64_t major_faults_total = 0;
  uint64_t voluntary_switches_total = 0;
  uint64_t involuntary_switches_total = 0;
  uint64_t read_bytes_total = 0;  // by read(2) and similar calls, from any file
  uint64_t written_bytes_total = 0;
  uint64_t disk_read_bytes_total = 0;  // that came from a disk
  uint64_t disk_written_bytes_total = 0;
  // The process's TCP connections, local ones included.
  uint64_t tcp_sent_bytes_total = 0;
  uint64_t tcp_received_bytes_total = 0;
  uint64_t tcp_sent_packets_total = 0;
  uint64_t tcp_received_packets_total = 0;
  uint64_t tcp_connections = 0;
  // The host.
  double host_busy_s_total = 0;  // sum over all cores
  double host_idle_s_total = 0;
  uint64_t host_used_bytes = 0;  // memory that is not available
  uint64_t host_disk_read_bytes_total = 0;
  uint64_t host_disk_written_bytes_total = 0;
  uint64_t loopback_bytes_total = 0;
  uint64_t loopback_packets_total = 0;
  uint64_t interface_received_bytes_total = 0;  // of all interfaces except the loopback
  uint64_t interface_sent_bytes_total = 0;
  uint64_t interface_received_packets_total = 0;
  uint64_t interface_sent_packets_total = 0;
  uint64_t host_switches_total = 0;
  std::vector<ThreadCpu> threads;
};

// Keeps the counts of closed connections, so that totals never decrease. Not thread-safe.
class ResourceReader {
 public:
  Resources Read();

 private:
  struct Traffic {
    uint64_t sent_bytes = 0, received_bytes = 0, sent_packets = 0, received_packets = 0;
  };
  void ReadSockets(Resources& r);

  std::map<std::pair<int, uint64_t>, Traffic> open_;  // by descriptor and inode
  Traffic closed_;
};

// The columns of resources-*.csv.
std::string ResourcesCsvHeader();
std::string ResourcesCsvLine(const Resources& r, int64_t clock_offset_ns);

}  // namespace millrace::profiler
