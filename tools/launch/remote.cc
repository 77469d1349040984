#include "tools/launch/remote.h"

#include <unistd.h>

#include <filesystem>
#include <set>

#include "tools/launch/child/program_path.h"
#include "tools/launch/output/console.h"
#include "tools/launch/plan/address.h"
#include "tools/launch/supervisor.h"

namespace millrace::tools {
namespace {

// What a host has answered so far.
struct Answer {
  std::vector<std::string> lines;
  std::optional<int> status;
};

Status WaitForAnswers(Supervisor& supervisor, int64_t deadline_ms, std::vector<Answer>& answers) {
  size_t open = answers.size();
  while (open > 0 && NowMs() < deadline_ms) {
    for (const Event& event : supervisor.Wait(deadline_ms)) {
      if (event.kind == Event::Kind::kSignal) return Cancelled("stopped by a signal");
      if (event.kind == Event::Kind::kLine) answers[event.child].lines.push_back(event.line);
      if (event.kind != Event::Kind::kExited) continue;
      answers[event.child].status = event.status;
      --open;
    }
  }
  return {};
}

Result<HostReport> Judge(const std::string& destination, const Answer& answer) {
  const std::string host = "host " + destination + ": ";
  if (!answer.status) return Status(Code::kIo, host + "has not answered in time");
  if (*answer.status == 127 || *answer.status == 126) {
    return NotFound(host + "cannot run " + OwnPath() +
                    "; expected Millrace in the same folder on every host");
  }
  if (*answer.status != 0) {
    return Status(Code::kIo, host + "ssh ended with status " + std::to_string(*answer.status));
  }
  Result<HostReport> report = ParseReport(answer.lines);
  if (!report.ok()) return Status(report.status().code(), host + report.status().message());
  if (!report->problems.empty()) return NotFound(host + report->problems[0]);
  if (report->address.empty()) report->address = HostOfDestination(destination);
  return report;
}

}  // namespace

std::string ShellQuoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

Words RemoteCommand(const Words& ssh, const std::string& destination, const Words& words) {
  Words command = ssh;
  if (std::filesystem::path(ssh[0]).filename() == "ssh") {
    for (const char* option : {"BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5",
                               "ServerAliveCountMax=3", "RequestTTY=no"}) {
      command.push_back("-o");
      command.push_back(option);
    }
  }
  command.push_back(destination);
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + ShellQuoted(word);
  command.push_back(line);
  return command;
}

Result<std::vector<HostReport>> ReportRemoteHosts(const LaunchOptions& options,
                                                  const std::string& directory) {
  std::vector<std::string> names;
  for (const std::string& host : options.hosts) names.push_back("host " + host);
  ASSIGN_OR_RETURN(Console console, Console::Create({}, names));
  Supervisor supervisor(console);
  Words question = {OwnPath(), kReportFlag, directory, options.worker[0]};
  if (options.shape.num_ps > 0) question.push_back(options.server[0]);
  for (size_t i = 0; i < options.hosts.size(); ++i) {
    const Words command = RemoteCommand(options.ssh, options.hosts[i], question);
    ASSIGN_OR_RETURN([[maybe_unused]] const size_t child,
                     supervisor.Start(command, i, Watch::kLinesOnly));
  }
  std::vector<Answer> answers(options.hosts.size());
  const Status waited = WaitForAnswers(supervisor, NowMs() + options.start_timeout_ms, answers);
  supervisor.Drain();
  RETURN_IF_ERROR(waited);
  std::vector<HostReport> reports;
  for (size_t i = 0; i < answers.size(); ++i) {
    ASSIGN_OR_RETURN(HostReport report, Judge(options.hosts[i], answers[i]));
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
                   ", where other hosts cannot reach it; expected its name in the network");
  }
  return {};
}

}  // namespace millrace::tools
