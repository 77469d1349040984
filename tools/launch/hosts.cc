#include "tools/launch/hosts.h"

#include <unistd.h>

#include <cstdlib>

#include "tools/common/progress.h"
#include "tools/common/text_table.h"
#include "tools/launch/child/program_path.h"
#include "tools/launch/environment.h"

namespace millrace::tools {
namespace {

constexpr std::string_view kHead = "millrace-host ";
constexpr std::string_view kEnd = "end";

void TakeField(std::string_view field, HostReport& report) {
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
    TakeField(field, report);
  }
  return Corrupt("no description of the host in " + std::to_string(lines.size()) + " lines");
}

std::string HostTable(const std::vector<HostReport>& hosts) {
  TextTable table({{"host"}, {"address"}, {"cores"}, {"memory"}, {"cpu"}});
  for (const HostReport& host : hosts) {
    table.Add({host.info.name, host.address, std::to_string(host.info.cores),
               BytesText(host.info.memory_bytes), host.info.cpu});
  }
  return table.Text();
}

}  // namespace millrace::tools
