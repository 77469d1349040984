// SPDX-License-Identifier: Apache-2.0
#include "profiler/resources.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "profiler/trace.h"

namespace millrace::profiler {
namespace {

constexpr uint64_t kSectorBytes = 512;

// The files of /proc are small and generated on the fly: one read is consistent.
std::string_view ReadProc(const char* path, std::vector<char>& buffer) {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  size_t size = 0;
  for (ssize_t got = 1; got > 0; size += static_cast<size_t>(got)) {
    if (size + 4096 > buffer.size()) buffer.resize(2 * buffer.size() + 16384);
    got = ::read(fd, buffer.data() + size, buffer.size() - size - 1);
    if (got < 0) break;
  }
  ::close(fd);
  buffer[size] = 0;
  return {buffer.data(), size};
}

// Removes the next word from `text` and returns it.
std::string_view NextWord(std::string_view& text) {
  const size_t begin = text.find_first_not_of(" \t\n");
  if (begin == std::string_view::npos) return text = {};
  const size_t end = std::min(text.find_first_of(" \t\n", begin), text.size());
  const std::string_view word = text.substr(begin, end - begin);
  text.remove_prefix(end);
  return word;
}

uint64_t NextNumber(std::string_view& text) {
  const std::string word(NextWord(text));
  return std::strtoull(word.c_str(), nullptr, 10);
}

// The number after `label`, which is at the beginning of a line.
uint64_t NumberAfter(std::string_view text, std::string_view label) {
  for (size_t at = text.find(label); at != std::string_view::npos; at = text.find(label, at + 1)) {
    if (at != 0 && text[at - 1] != '\n') continue;
    std::string_view rest = text.substr(at + label.size());
    return NextNumber(rest);
  }
  return 0;
}

double Ticks(uint64_t ticks) {
  static const double per_second = static_cast<double>(::sysconf(_SC_CLK_TCK));
  return static_cast<double>(ticks) / per_second;
}

double Seconds(const timeval& t) {
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
}

void ReadUsage(Resources& r) {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  r.user_s_total = Seconds(usage.ru_utime);
  r.system_s_total = Seconds(usage.ru_stime);
  r.minor_faults_total = static_cast<uint64_t>(usage.ru_minflt);
  r.major_faults_total = static_cast<uint64_t>(usage.ru_majflt);
  r.voluntary_switches_total = static_cast<uint64_t>(usage.ru_nvcsw);
  r.involuntary_switches_total = static_cast<uint64_t>(usage.ru_nivcsw);
  r.peak_resident_bytes = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

void ReadMemoryAndDisk(std::vector<char>& buffer, Resources& r) {
  std::string_view statm = ReadProc("/proc/self/statm", buffer);
  NextWord(statm);
  r.resident_bytes = NextNumber(statm) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::string_view io = ReadProc("/proc/self/io", buffer);
  r.read_bytes_total = NumberAfter(io, "rchar:");
  r.written_bytes_total = NumberAfter(io, "wchar:");
  r.disk_read_bytes_total = NumberAfter(io, "read_bytes:");
  r.disk_written_bytes_total = NumberAfter(io, "write_bytes:");
}

// "1234 (name) S ..." with user and system ticks as the 12th and 13th word after the name.
ThreadCpu ParseThread(std::string_view stat) {
  ThreadCpu thread;
  const size_t open = stat.find('('), close = stat.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos) return thread;
  thread.tid = static_cast<int64_t>(NumberAfter(stat, ""));
  for (const char c : stat.substr(open + 1, close - open - 1)) {
    thread.name += std::strchr(",;=@\"\n", c) ? '_' : c;
  }
  stat.remove_prefix(close + 1);
  for (int word = 0; word < 11; ++word) NextWord(stat);
  thread.user_s = Ticks(NextNumber(stat));
  thread.system_s = Ticks(NextNumber(stat));
  return thread;
}

void ReadThreads(std::vector<char>& buffer, Resources& r) {
  DIR* folder = ::opendir("/proc/self/task");
  if (!folder) return;
  while (const dirent* entry = ::readdir(folder)) {
    if (entry->d_name[0] == '.') continue;
    char path[300];
    std::snprintf(path, sizeof path, "/proc/self/task/%s/stat", entry->d_name);
    ThreadCpu thread = ParseThread(ReadProc(path, buffer));
    if (thread.tid > 0) r.threads.push_back(std::move(thread));
  }
  ::closedir(folder);
}

void ReadHost(std::vector<char>& buffer, Resources& r) {
  const std::string_view stat = ReadProc("/proc/stat", buffer);
  std::string_view cpu = stat.substr(0, stat.find('\n'));
  NextWord(cpu);
  uint64_t ticks[8] = {};  // user, nice, system, idle, iowait, irq, softirq, steal
  for (uint64_t& t : ticks) t = NextNumber(cpu);
  r.host_busy_s_total = Ticks(ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6] + ticks[7]);
  r.host_idle_s_total = Ticks(ticks[3] + ticks[4]);
  r.host_switches_total = NumberAfter(stat, "ctxt");
  const std::string_view memory = ReadProc("/proc/meminfo", buffer);
  r.host_used_bytes =
      (NumberAfter(memory, "MemTotal:") - NumberAfter(memory, "MemAvailable:")) * 1024;
}

// Whole disks, which have a folder in /sys/block, not their partitions.
void ReadDisks(std::vector<char>& buffer, Resources& r) {
  std::string_view text = ReadProc("/proc/diskstats", buffer);
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    NextWord(line), NextWord(line);
    const std::string name(NextWord(line));
    if (name.empty() || name.starts_with("loop") || name.starts_with("ram")) continue;
    if (::access(("/sys/block/" + name).c_str(), F_OK) != 0) continue;
    NextWord(line), NextWord(line);
    r.host_disk_read_bytes_total += NextNumber(line) * kSectorBytes;
    NextWord(line), NextWord(line), NextWord(line);
    r.host_disk_written_bytes_total += NextNumber(line) * kSectorBytes;
  }
}

// "  eth0: bytes packets ... (8 numbers received, then 8 sent)"
void ReadInterfaces(std::vector<char>& buffer, Resources& r) {
  std::string_view text = ReadProc("/proc/net/dev", buffer);
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    std::string_view before = line.substr(0, colon);
    const bool loopback = NextWord(before) == "lo";
    line.remove_prefix(colon + 1);
    uint64_t numbers[10] = {};
    for (uint64_t& number : numbers) number = NextNumber(line);
    if (loopback) {
      r.loopback_bytes_total += numbers[0];
      r.loopback_packets_total += numbers[1];
    } else {
      r.interface_received_bytes_total += numbers[0];
      r.interface_received_packets_total += numbers[1];
      r.interface_sent_bytes_total += numbers[8];
      r.interface_sent_packets_total += numbers[9];
    }
  }
}

struct Column {
  const char* name;
  double Resources::*real;
  uint64_t Resources::*count;
};

constexpr Column Real(const char* name, double Resources::*field) { return {name, field, nullptr}; }
constexpr Column Count(const char* name, uint64_t Resources::*field) {
  return {name, nullptr, field};
}

constexpr Column kColumns[] = {
    Real("user_s_total", &Resources::user_s_total),
    Real("system_s_total", &Resources::system_s_total),
    Count("resident_bytes", &Resources::resident_bytes),
    Count("peak_resident_bytes", &Resources::peak_resident_bytes),
    Count("minor_faults_total", &Resources::minor_faults_total),
    Count("major_faults_total", &Resources::major_faults_total),
    Count("voluntary_switches_total", &Resources::voluntary_switches_total),
    Count("involuntary_switches_total", &Resources::involuntary_switches_total),
    Count("read_bytes_total", &Resources::read_bytes_total),
    Count("written_bytes_total", &Resources::written_bytes_total),
    Count("disk_read_bytes_total", &Resources::disk_read_bytes_total),
    Count("disk_written_bytes_total", &Resources::disk_written_bytes_total),
    Count("tcp_sent_bytes_total", &Resources::tcp_sent_bytes_total),
    Count("tcp_received_bytes_total", &Resources::tcp_received_bytes_total),
    Count("tcp_sent_packets_total", &Resources::tcp_sent_packets_total),
    Count("tcp_received_packets_total", &Resources::tcp_received_packets_total),
    Count("tcp_connections", &Resources::tcp_connections),
    Real("host_busy_s_total", &Resources::host_busy_s_total),
    Real("host_idle_s_total", &Resources::host_idle_s_total),
    Count("host_used_bytes", &Resources::host_used_bytes),
    Count("host_disk_read_bytes_total", &Resources::host_disk_read_bytes_total),
    Count("host_disk_written_bytes_total", &Resources::host_disk_written_bytes_total),
    Count("loopback_bytes_total", &Resources::loopback_bytes_total),
    Count("loopback_packets_total", &Resources::loopback_packets_total),
    Count("interface_received_bytes_total", &Resources::interface_received_bytes_total),
    Count("interface_sent_bytes_total", &Resources::interface_sent_bytes_total),
    Count("interface_received_packets_total", &Resources::interface_received_packets_total),
    Count("interface_sent_packets_total", &Resources::interface_sent_packets_total),
    Count("host_switches_total", &Resources::host_switches_total),
};

}  // namespace

Resources ResourceReader::Read() {
  Resources r;
  std::vector<char> buffer;
  r.steady_ns = NowNs();
  ReadUsage(r);
  ReadMemoryAndDisk(buffer, r);
  ReadThreads(buffer, r);
  ReadHost(buffer, r);
  ReadDisks(buffer, r);
  ReadInterfaces(buffer, r);
  ReadSockets(r);
  return r;
}

// Reads every descriptor of the process that is a TCP connection. A descriptor that was closed and
// reopened has another inode.
void ResourceReader::ReadSockets(Resources& r) {
  std::map<std::pair<int, uint64_t>, Traffic> now;
  DIR* folder = ::opendir("/proc/self/fd");
  if (!folder) return;
  while (const dirent* entry = ::readdir(folder)) {
    const int fd = std::atoi(entry->d_name);
    struct stat status {};
    // By name: another thread owns the descriptor and may close it at any time.
    if (entry->d_name[0] == '.' || ::fstatat(::dirfd(folder), entry->d_name, &status, 0) != 0 ||
        !S_ISSOCK(status.st_mode)) {
      continue;
    }
    tcp_info info{};
    socklen_t size = sizeof info;
    if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) continue;
    now[{fd, status.st_ino}] = {info.tcpi_bytes_acked, info.tcpi_bytes_received, info.tcpi_segs_out,
                                info.tcpi_segs_in};
  }
  ::closedir(folder);
  const auto add = [](Traffic& sum, const Traffic& part) {
    sum.sent_bytes += part.sent_bytes;
    sum.received_bytes += part.received_bytes;
    sum.sent_packets += part.sent_packets;
    sum.received_packets += part.received_packets;
  };
  for (const auto& [key, traffic] : open_) {
    if (!now.contains(key)) add(closed_, traffic);
  }
  open_ = std::move(now);
  Traffic sum = closed_;
  for (const auto& [key, traffic] : open_) add(sum, traffic);
  r.tcp_sent_bytes_total = sum.sent_bytes;
  r.tcp_received_bytes_total = sum.received_bytes;
  r.tcp_sent_packets_total = sum.sent_packets;
  r.tcp_received_packets_total = sum.received_packets;
  r.tcp_connections = open_.size();
}

std::string ResourcesCsvHeader() {
  std::string line = "steady_ns,clock_offset_ns";
  for (const Column& column : kColumns) line += std::string(",") + column.name;
  return line + ",threads\n";
}

std::string ResourcesCsvLine(const Resources& r, int64_t clock_offset_ns) {
  std::string line = std::to_string(r.steady_ns) + "," + std::to_string(clock_offset_ns);
  for (const Column& column : kColumns) {
    char text[40];
    if (column.real) {
      std::snprintf(text, sizeof text, ",%.6f", r.*column.real);
    } else {
      std::snprintf(text, sizeof text, ",%llu", static_cast<unsigned long long>(r.*column.count));
    }
    line += text;
  }
  const char* separator = ",";
  for (const ThreadCpu& thread : r.threads) {
    char text[80];
    std::snprintf(text, sizeof text, "@%lld=%.2f+%.2f", static_cast<long long>(thread.tid),
                  thread.user_s, thread.system_s);
    line += separator + thread.name + text;
    separator = ";";
  }
  return line + "\n";
}

}  // namespace millrace::profiler
