// SPDX-License-Identifier: Apache-2.0
// millrace-launch: starts a whole training job.

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "tools/common/help.h"
#include "tools/common/program.h"
#include "tools/dashboard/dashboard.h"
#include "tools/launch/child/process_shim.h"
#include "tools/launch/child/token_file.h"
#include "tools/launch/environment.h"
#include "tools/launch/hosts.h"
#include "tools/launch/job.h"
#include "tools/launch/launch_flags.h"
#include "tools/launch/output/console.h"
#include "tools/launch/process_group.h"
#include "tools/launch/supervisor.h"

namespace millrace::launch {
namespace {

constexpr char kProgram[] = "millrace-launch";
constexpr char kLoopback[] = "127.0.0.1";

int Print(const std::string& text) { return std::fputs(text.c_str(), stdout) < 0; }

Result<std::vector<HostReport>> FindHosts(const LaunchOptions& options,
                                          const std::string& directory) {
  if (options.hosts.empty()) return std::vector{ReportThisHost(kLoopback, directory, {})};
  ASSIGN_OR_RETURN(const std::vector<HostReport> hosts, ReportRemoteHosts(options, directory));
  RETURN_IF_ERROR(CheckAddresses(options, hosts));
  return hosts;
}

Result<int> RunJob(const LaunchOptions& options, const std::string& directory) {
  ASSIGN_OR_RETURN(const std::string token, RandomToken());
  ASSIGN_OR_RETURN(const std::vector<HostReport> hosts, FindHosts(options, directory));
  std::vector<std::string> names;
  for (const PlacedProcess& process : Place(options.shape, hosts.size()))
    names.push_back(NameOf(process.id));
  const ConsoleOptions console_options = {.color_out = ::isatty(STDOUT_FILENO) != 0,
                                          .color_err = ::isatty(STDERR_FILENO) != 0,
                                          .log_dir = options.log_dir};
  ASSIGN_OR_RETURN(Console console, Console::Create(console_options, names));
  console.Print(HostTable(hosts));
  std::unique_ptr<dashboard::Dashboard> dashboard;
  if (options.dashboard_port > 0) {
    const std::string run_dir = *FlagIn(options.worker, "run_dir");
    ASSIGN_OR_RETURN(dashboard, dashboard::Dashboard::Start(
                                    {.port = options.dashboard_port, .run_dir = run_dir}));
    console.Print("live page of the job at " + dashboard->url() + "\n");
  }
  Supervisor supervisor(console);
  ProcessGroup group(options, hosts, token, directory, supervisor);
  Job job(options, group, supervisor, console);
  const Result<int> status = job.Run();
  console.ReportLostBytes();
  supervisor.FlushConsole();
  return status;
}

Result<int> Run(const Words& command) {
  ASSIGN_OR_RETURN(const std::optional<Rank> rank, RankFromEnvironment());
  ASSIGN_OR_RETURN(const LaunchOptions options, LaunchOptionsFromFlags(command, rank));
  std::error_code error;
  const std::string directory = std::filesystem::current_path(error).string();
  if (error) return IoError("no working directory", error.value());
  return options.rendezvous.empty() ? RunJob(options, directory)
                                    : RunRank(options, *rank, directory);
}

int Main(const Words& words) {
  if (words == Words{kShimFlag}) return RunProcessShim(SearchPath());
  if (words.size() > 1 && words[0] == kReportFlag) {
    const Words programs(words.begin() + 2, words.end());
    return Print(FormatReport(ReportThisHost(SshServerAddress(), words[1], programs)));
  }
  const SplitLine split = SplitAtDashes(words);
  const Result<tools::ParsedLine> line = tools::ParseLine(LaunchSpec(), {}, split.flags);
  if (!line.ok()) return tools::Fail(kProgram, ExplainDashes(words, line.status()));
  if (const auto exit_status = tools::Answer(LaunchSpec(), line->action)) return *exit_status;
  if (!line->args.empty()) {
    const Status wrong = Invalid("unexpected '" + line->args[0] + "'");
    return tools::Fail(kProgram, ExplainDashes(words, wrong));
  }
  const Result<int> status = Run(split.command);
  return status.ok() ? *status : tools::Fail(kProgram, status.status());
}

}  // namespace
}  // namespace millrace::launch

int main(int argc, char** argv) {
  return millrace::tools::ProgramMain(millrace::launch::kProgram, millrace::launch::Main, argc,
                                      argv);
}
