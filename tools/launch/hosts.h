// A host as it describes itself: for the inventory, and to find out before anything is started
// whether it can run the job.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/base/status.h"
#include "tools/launch/plan/command.h"
#include "trainer/run/host_info.h"

namespace millrace::tools {

struct HostReport {
  trainer::HostInfo info;
  std::string address;                // where servers on it listen, and others reach them
  std::vector<std::string> problems;  // why it cannot run the job
};

// The word that makes millrace-launch print the report of its host. A folder and programs follow.
constexpr char kReportFlag[] = "--describe_host";

// This host. `directory` is where the job's processes would work and `programs` what they would
// run.
HostReport ReportThisHost(const std::string& address, const std::string& directory,
                          const Words& programs);

// Lines of "key value"; other lines around them (a login message) do no harm.
std::string FormatReport(const HostReport& report);
Result<HostReport> ParseReport(const std::vector<std::string>& lines);

// The inventory: name, address, cores, memory, CPU.
std::string HostTable(const std::vector<HostReport>& hosts);

}  // namespace millrace::tools
