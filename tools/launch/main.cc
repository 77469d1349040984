// SPDX-License-Identifier: Apache-2.0
// millrace-launch: starts a whole training job.

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <vector>

#include "tools/common/help.h"
#include "tools/common/program.h"
#include "tools/dashboard/dashboard.h"
#include "tools/launch/child/process_shim.h"
#include "tools/launch/child/program_path.h"
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

// Becomes the process of `task`, so that signals and the exit status are those of the program. What
// starts it may start it again at any time with the same command: it goes on with what is there.
Result<int> BecomeTask(const LaunchOptions& options, const ClusterTask& task) {
  if (!task.id) {
    return Print(std::string(kProgram) + ": worker 0 evaluates: an evaluator has nothing to do\n");
  }
  const ProcessId id = *task.id;
  const JobFlags flags = {.num_ps = task.ps_hosts.size(),
                          .num_workers = task.worker_hosts.size(),
                          .ps_hosts = task.ps_hosts,
                          .worker_hosts = task.worker_hosts,
                          .tls = options.tls};
  Words words;
  if (id.role == Role::kServer) {
    words = ServerCommand(options.server, options.worker, flags, id.index,
                          ListenAddress(task.ps_hosts[id.index]));
  } else {
    const bool may_resume = FlagIn(options.worker, "run_dir") && !FlagIn(options.worker, "resume");
    const Start start = !IsChief(id) ? Start::kRejoin : may_resume ? Start::kResume : Start::kFirst;
    words = WorkerCommand(options.worker, flags, id.index, start);
  }
  if (!options.token_file.empty()) words.push_back("--token_file=" + options.token_file);
  ASSIGN_OR_RETURN(const std::string path, FindProgram(words[0], SearchPath()));
  Print(std::string(kProgram) + ": " + NameOf(id) + " of " + std::to_string(flags.num_ps) +
        " servers and " + std::to_string(flags.num_workers) + " workers\n");
  std::fflush(stdout);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execv(path.c_str(), arguments.data());
  return IoError(path, errno);
}

Result<int> Run(const Words& command) {
  ASSIGN_OR_RETURN(const std::optional<Rank> rank, RankFromEnvironment());
  ASSIGN_OR_RETURN(const PodEnvironment pod, PodFromEnvironment());
  ASSIGN_OR_RETURN(const LaunchOptions options, LaunchOptionsFromFlags(command, rank, pod));
  if (options.task) return BecomeTask(options, *options.task);
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
