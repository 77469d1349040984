// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/hosts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "tools/common/progress.h"
#include "tools/common/text_table.h"
#include "tools/launch/child/program_path.h"
#include "tools/launch/environment.h"
#include "tools/launch/output/console.h"
#include "tools/launch/supervisor.h"

namespace millrace::launch {
namespace {

constexpr std::string_view kHead = "millrace-host ";
constexpr std::string_view kEnd = "end";

void SetField(std::string_view field, HostReport& report) {
  const size_t space = std::min(field.find(' '), field.size());
  const std::string_view key = field.substr(0, space);
  const std::string value(field.substr(std::min(space + 1, field.size())));
  if (key == "name") report.info.name = value;
  if (key == "cpu") report.info.cpu = value;
  if (key == "cores") report.info.cores = static_cast<unsigned>(std::atol(value.c_str()));
  if (key == "memory") report.info.memory_bytes = std::strtoull(value.c_str(), nullptr, 10);
  if (key == "address") report.address = value;
  if (key == "problem") report.problems.push_back(value);
}

std::string TextOf(const sockaddr* address) {
  char text[INET_ADDRSTRLEN] = {};
  const auto* ipv4 = reinterpret_cast<const sockaddr_in*>(address);
  ::inet_ntop(AF_INET, &ipv4->sin_addr, text, sizeof text);
  return text;
}

std::string AddressOfHostName(const std::string& name) {
  addrinfo hints = {};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return "";
  const std::string text = TextOf(found->ai_addr);
  ::freeaddrinfo(found);
  return IsLoopback(text) ? "" : text;
}

std::string AddressOfInterface() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return "";
  std::string text;
  for (const ifaddrs* one = all; one != nullptr && text.empty(); one = one->ifa_next) {
    const bool is_usable = (one->ifa_flags & IFF_UP) != 0 && (one->ifa_flags & IFF_LOOPBACK) == 0;
    if (is_usable && one->ifa_addr != nullptr && one->ifa_addr->sa_family == AF_INET)
      text = TextOf(one->ifa_addr);
  }
  ::freeifaddrs(all);
  return text;
}

// The output of a remote host so far.
struct HostReply {
  std::vector<std::string> lines;
  std::optional<int> status;
};

Status WaitForReplies(Supervisor& supervisor, int64_t deadline_ms,
                      std::vector<HostReply>& replies) {
  size_t missing = replies.size();
  while (missing > 0 && NowMs() < deadline_ms) {
    for (const Event& event : supervisor.Wait(deadline_ms)) {
      if (event.kind == Event::Kind::kSignal) return Cancelled("stopped by a signal");
      if (event.kind == Event::Kind::kLine) replies[event.child].lines.push_back(event.line);
      if (event.kind != Event::Kind::kExited) continue;
      replies[event.child].status = event.status;
      --missing;
    }
  }
  return {};
}

Result<HostReport> ReportFromReply(const std::string& destination, const HostReply& reply) {
  const std::string host = "host " + destination + ": ";
  if (!reply.status) return Status(Code::kIo, host + "did not reply in time");
  if (*reply.status == 127 || *reply.status == 126) {
    return NotFound(host + "cannot run " + OwnPath() +
                    "; expected Millrace in the same folder on every host");
  }
  if (*reply.status != 0) {
    return Status(Code::kIo, host + "ssh exited with status " + std::to_string(*reply.status));
  }
  Result<HostReport> report = ParseReport(reply.lines);
  if (!report.ok()) return Status(report.status().code(), host + report.status().message());
  if (!report->problems.empty()) return NotFound(host + report->problems[0]);
  if (report->address.empty()) report->address = HostOfDestination(destination);
  return report;
}

}  // namespace

HostReport ReportThisHost(const std::string& address, const std::string& directory,
                          const Words& programs) {
  HostReport report = {.info = trainer::DescribeHost(), .address = address, .problems = {}};
  if (::chdir(directory.c_str()) != 0) {
    report.problems.push_back(IoError(directory + ": cannot work in this folder", errno).message());
    return report;
  }
  for (const std::string& program : programs) {
    const Result<std::string> path = FindProgram(program, SearchPath());
    if (!path.ok()) report.problems.push_back(path.status().message());
  }
  return report;
}

std::string OwnAddress(bool one_host) {
  if (one_host) return "127.0.0.1";
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  if (const std::string text = AddressOfHostName(name); !text.empty()) return text;
  const std::string text = AddressOfInterface();
  return text.empty() ? name : text;
}

std::string FormatReport(const HostReport& report) {
  std::string text;
  const auto add = [&](const std::string& field) { text += std::string(kHead) + field + "\n"; };
  add("name " + report.info.name);
  add("cpu " + report.info.cpu);
  add("cores " + std::to_string(report.info.cores));
  add("memory " + std::to_string(report.info.memory_bytes));
  add("address " + report.address);
  for (const std::string& problem : report.problems) add("problem " + problem);
  add(std::string(kEnd));
  return text;
}

Result<HostReport> ParseReport(const std::vector<std::string>& lines) {
  HostReport report;
  for (const std::string& line : lines) {
    if (!line.starts_with(kHead)) continue;
    const std::string_view field = std::string_view(line).substr(kHead.size());
    if (field == kEnd) return report;
    SetField(field, report);
  }
  return Corrupt("no description of the host in " + std::to_string(lines.size()) + " lines");
}

Result<std::vector<HostReport>> ReportRemoteHosts(const LaunchOptions& options,
                                                  const std::string& directory) {
  std::vector<std::string> names;
  for (const std::string& host : options.hosts) names.push_back("host " + host);
  ASSIGN_OR_RETURN(Console console, Console::Create({}, names));
  Supervisor supervisor(console);
  Words query = {OwnPath(), kReportFlag, directory, options.worker[0]};
  if (options.shape.num_ps > 0) query.push_back(options.server[0]);
  for (size_t i = 0; i < options.hosts.size(); ++i) {
    const Words command = RemoteCommand(options.ssh, options.hosts[i], query);
    ASSIGN_OR_RETURN([[maybe_unused]] const size_t child,
                     supervisor.Start(command, i, Watch::kLinesOnly));
  }
  std::vector<HostReply> replies(options.hosts.size());
  const Status waited = WaitForReplies(supervisor, NowMs() + options.start_timeout_ms, replies);
  supervisor.FlushConsole();
  RETURN_IF_ERROR(waited);
  std::vector<HostReport> reports;
  for (size_t i = 0; i < replies.size(); ++i) {
    ASSIGN_OR_RETURN(HostReport report, ReportFromReply(options.hosts[i], replies[i]));
    reports.push_back(std::move(report));
  }
  return reports;
}

Status CheckAddresses(const LaunchOptions& options, const std::vector<HostReport>& hosts) {
  std::set<std::string> addresses;
  for (const PlacedProcess& process : Place(options.shape, hosts.size()))
    addresses.insert(hosts[process.host].address);
  if (addresses.size() == 1) return {};
  for (size_t i = 0; i < hosts.size() && i < options.shape.num_ps; ++i) {
    if (!IsLoopback(hosts[i].address)) continue;
    return Invalid("--hosts: " + options.hosts[i] + " was reached at " + hosts[i].address +
                   ", which other hosts cannot reach; expected its name in the network");
  }
  return {};
}

std::string HostTable(const std::vector<HostReport>& hosts) {
  tools::TextTable table({{"host"}, {"address"}, {"cores"}, {"memory"}, {"cpu"}});
  for (const HostReport& host : hosts) {
    table.Add({host.info.name, host.address, std::to_string(host.info.cores),
               tools::BytesText(host.info.memory_bytes), host.info.cpu});
  }
  return table.Text();
}

}  // namespace millrace::launch
