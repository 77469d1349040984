// SPDX-License-Identifier: Apache-2.0
// The hosts of a job. Each host describes itself before any process starts: for the inventory, and
// to check whether it can run the job.
#pragma once

#include <string>
#include <vector>

#include "io/base/status.h"
#include "tools/launch/launch_options.h"
#include "tools/launch/plan/command.h"
#include "trainer/run/host_info.h"

namespace millrace::launch {

struct HostReport {
  trainer::HostInfo info;
  std::string address;                // where its servers listen
  std::vector<std::string> problems;  // why it cannot run the job
};

// The argument that makes millrace-launch print the report of its host. A folder and programs
// follow.
constexpr char kReportFlag[] = "--describe_host";

// The report of this host. `directory` is the working directory of the job's processes, `programs`
// are the programs that they run.
HostReport ReportThisHost(const std::string& address, const std::string& directory,
                          const Words& programs);

// The loopback address if all processes are on one host. Otherwise the address of this host's name;
// if that is a loopback address, the address of the first network interface that is up; the host's
// name if there is none.
std::string OwnAddress(bool one_host);

// A report as lines of "millrace-host KEY VALUE". ParseReport ignores other lines around them, such
// as a login message.
std::string FormatReport(const HostReport& report);
Result<HostReport> ParseReport(const std::vector<std::string>& lines);

// Gets the reports of all options.hosts at the same time, through ssh. An error names the host that
// cannot run the job, and the reason.
Result<std::vector<HostReport>> ReportRemoteHosts(const LaunchOptions& options,
                                                  const std::string& directory);

// An error if a server would listen on a loopback address that workers on other hosts cannot reach.
Status CheckAddresses(const LaunchOptions& options, const std::vector<HostReport>& hosts);

// The inventory: name, address, cores, memory, CPU.
std::string HostTable(const std::vector<HostReport>& hosts);

}  // namespace millrace::launch
