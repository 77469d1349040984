// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/launch_flags.h"

#include <gflags/gflags.h>

#include <algorithm>
#include <cmath>

#include "tools/common/flags.h"
#include "tools/launch/child/program_path.h"

using millrace::launch::LaunchOptions;

DEFINE_string(
    deploy_mode, "",
    "single: 1 worker, no server, the command unchanged; cluster: 2 workers and 1 server; "
    "cluster2: 3 workers and 1 server");
DEFINE_uint64(num_ps, 0, "number of servers, without deploy_mode");
DEFINE_uint64(num_workers, 0, "number of workers, without deploy_mode");
DEFINE_string(
    hosts, "",
    "comma-separated ssh destinations, to which servers and workers are assigned in turn; "
    "empty: only this host");
DEFINE_string(ssh, "ssh", "the ssh client and its flags, such as 'ssh -p 2222 -i key'");
DEFINE_string(rendezvous, "",
              "folder shared by all ranks of mpirun or srun; each rank runs millrace-launch with "
              "the same flags, "
              "and the first num_ps ranks (default 1) become servers");

DEFINE_string(
    ps_hosts, "",
    "with worker_hosts: HOST:PORT of each server; ps-{0..2}.clicks:7000 stands for three");
DEFINE_string(
    worker_hosts, "",
    "the hosts of workers, by index, of a job whose processes something else starts, such "
    "as pods: this process becomes the one of its host name or JOB_COMPLETION_INDEX. "
    "Without it TF_CONFIG says the same");
DEFINE_string(token_file, "",
              "with worker_hosts or TF_CONFIG: file with the secret token of the job");

DEFINE_uint64(restart, LaunchOptions{}.restarts,
              "number of restarts after process failures: of a failed worker (--rejoin), or, if a "
              "server or worker 0 fails, of the whole job from its last checkpoint (--resume)");
DEFINE_double(start_timeout, LaunchOptions{}.start_timeout_ms / 1e3,
              "seconds until all servers listen, hosts reply and ranks have met");
DEFINE_double(stop_timeout, LaunchOptions{}.stop_timeout_ms / 1e3,
              "seconds for workers to exit after Ctrl-C or SIGTERM before they are killed");
DEFINE_double(server_grace, LaunchOptions{}.server_grace_ms / 1e3,
              "seconds for servers to exit after all workers have exited");

DEFINE_string(ps_program, "millrace-ps", "the server program");
DEFINE_string(ps_flags, "", "additional flags for the servers");
DEFINE_string(tls_cert, "", "passed to servers and workers");
DEFINE_string(tls_key, "", "passed to servers and workers");
DEFINE_string(tls_ca, "", "passed to servers and workers");
DEFINE_string(log_dir, "", "folder for one log file per process; empty: none");
DEFINE_uint64(
    dashboard, LaunchOptions{}.dashboard_port,
    "loopback port of the live report page of the whole job and of /metrics for Prometheus; "
    "0: none");

namespace millrace::launch {
namespace {

using tools::IsGiven;

// The role of this process if something else starts those of the job.
Result<std::optional<ClusterTask>> TaskFromFlags(const PodEnvironment& pod) {
  if (!FLAGS_worker_hosts.empty()) {
    ASSIGN_OR_RETURN(ClusterTask task, TaskOfHost(FLAGS_ps_hosts, FLAGS_worker_hosts, pod.host_name,
                                                  pod.completion_index));
    return std::optional(std::move(task));
  }
  if (!pod.tf_config) {
    if (FLAGS_token_file.empty()) return std::optional<ClusterTask>();
    return Invalid(
        "--token_file: millrace-launch makes the token of a job that it starts; expected "
        "--worker_hosts or TF_CONFIG");
  }
  ASSIGN_OR_RETURN(ClusterTask task, TaskFromTfConfig(*pod.tf_config));
  return std::optional(std::move(task));
}

// What starts the processes also places, stops and restarts them.
Status CheckTaskFlags() {
  const std::string source = FLAGS_worker_hosts.empty() ? "TF_CONFIG" : "--worker_hosts";
  for (const char* flag :
       {"deploy_mode", "num_ps", "num_workers", "hosts", "ssh", "rendezvous", "restart",
        "start_timeout", "stop_timeout", "server_grace", "log_dir", "dashboard"}) {
    if (!IsGiven(flag)) continue;
    return Invalid(std::string("--") + flag + " with " + source +
                   ", which describes a job whose processes something else starts: expected one "
                   "of them");
  }
  return {};
}

Result<JobShape> ShapeFromFlags(const std::optional<Rank>& rank) {
  const bool has_numbers = IsGiven("num_ps") || IsGiven("num_workers");
  if (has_numbers && !FLAGS_deploy_mode.empty())
    return Invalid("--deploy_mode and --num_ps or --num_workers: expected one of them");
  JobShape shape;
  if (!FLAGS_deploy_mode.empty()) {
    ASSIGN_OR_RETURN(shape, ShapeOfDeployMode(FLAGS_deploy_mode));
  } else if (rank) {
    shape.num_ps = IsGiven("num_ps") ? FLAGS_num_ps : std::min<size_t>(1, rank->size - 1);
    shape.num_workers = IsGiven("num_workers") ? FLAGS_num_workers
                                               : rank->size - std::min(shape.num_ps, rank->size);
  } else if (has_numbers) {
    shape.num_ps = FLAGS_num_ps;
    shape.num_workers = IsGiven("num_workers") ? FLAGS_num_workers : 1;
  }
  RETURN_IF_ERROR(CheckShape(shape));
  if (rank && rank->size != shape.num_ps + shape.num_workers) {
    return Invalid(std::to_string(shape.num_ps) + " servers and " +
                   std::to_string(shape.num_workers) + " workers, but " + rank->starter +
                   " has started " + std::to_string(rank->size) +
                   " ranks: expected one per process");
  }
  return shape;
}

Result<std::vector<std::string>> HostsFromFlags() {
  std::vector<std::string> hosts;
  std::string rest = FLAGS_hosts;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(','), rest.size());
    hosts.push_back(rest.substr(0, end));
    rest.erase(0, end + 1);
    // ssh would read a name that starts with a dash as an option.
    if (HostOfDestination(hosts.back()).empty() || hosts.back().starts_with("-") ||
        hosts.back().find_first_of(" \t\n'\"") != std::string::npos)
      return Invalid("--hosts=" + FLAGS_hosts + ": expected names separated by commas");
  }
  return hosts;
}

Status CheckRanks(const std::optional<Rank>& rank) {
  if (FLAGS_rendezvous.empty()) {
    if (!rank || rank->size == 1 || !rank->is_task) return {};
    return Invalid(rank->starter + " has started " + std::to_string(rank->size) +
                   " ranks: expected --rendezvous=DIR, a folder that they share");
  }
  if (!rank) {
    return Invalid(
        "--rendezvous is for ranks of mpirun or srun, but neither OMPI_COMM_WORLD_RANK nor "
        "SLURM_PROCID is set");
  }
  if (!FLAGS_hosts.empty())
    return Invalid("--rendezvous and --hosts: expected one of them; " + rank->starter +
                   " chooses the hosts");
  if (FLAGS_restart > 0) {
    return Invalid("--restart with ranks of " + rank->starter +
                   ": a rank cannot be restarted; expected no --restart");
  }
  return {};
}

Result<int64_t> Milliseconds(const char* flag, double seconds) {
  if (seconds > 0 && seconds <= 1e6) return std::llround(seconds * 1000);
  return Invalid(std::string("--") + flag + ": expected seconds, more than 0 and at most 1000000");
}

// --mode of the command must match the number of servers.
Status CheckMode(const LaunchOptions& options) {
  const std::optional<std::string> mode = FlagIn(options.worker, "mode");
  if (options.shape.num_ps == 0) {
    if (!mode || *mode == "single") return {};
    return Invalid("--mode=" + *mode +
                   " needs servers: expected --deploy_mode=cluster or cluster2, or --num_ps and "
                   "--num_workers");
  }
  if (!mode || *mode == "sync" || *mode == "async" || *mode == "ssp") return {};
  return Invalid("--mode=" + *mode + " in a job with servers: expected sync, async or ssp");
}

// The page shows the files of the run folder.
Status CheckDashboard(const LaunchOptions& options) {
  if (FLAGS_dashboard == 0) return {};
  if (FLAGS_dashboard > UINT16_MAX) {
    return Invalid("--dashboard=" + std::to_string(FLAGS_dashboard) +
                   ": expected a port, 1 to 65535");
  }
  if (!FlagIn(options.worker, "run_dir"))
    return Invalid("--dashboard shows a run folder: expected --run_dir in the command");
  if (!options.rendezvous.empty())
    return Invalid("--dashboard with --rendezvous: expected --dashboard in the command instead");
  return {};
}

// The command must not contain flags that millrace-launch adds.
Status CheckCommand(const LaunchOptions& options) {
  if (options.worker.empty() || options.worker[0].empty())
    return Invalid("no command: expected -- and the program to run, such as -- millrace-lr ...");
  for (const char* flag : {"job_name", "task_index", "ps_hosts", "worker_hosts", "token_file"}) {
    if (options.shape.num_ps > 0 && FlagIn(options.worker, flag))
      return Invalid(std::string("--") + flag + " in the command: millrace-launch adds it itself");
  }
  if (options.restarts > 0 && !FlagIn(options.worker, "run_dir")) {
    return Invalid(
        "--restart without --run_dir in the command: there would be no checkpoint to resume from");
  }
  RETURN_IF_ERROR(CheckDashboard(options));
  return CheckMode(options);
}

void AddTls(const char* flag, const std::string& value, Words& words) {
  if (!value.empty()) words.push_back(std::string("--") + flag + "=" + value);
}

// Programs on other hosts are checked by ReportRemoteHosts.
Status CheckPrograms(LaunchOptions& options) {
  if (!options.hosts.empty()) {
    ASSIGN_OR_RETURN(options.ssh[0], FindProgram(options.ssh[0], SearchPath()));
    return {};
  }
  RETURN_IF_ERROR(FindProgram(options.worker[0], SearchPath()).status());
  if (options.shape.num_ps == 0) return {};
  return FindProgram(options.server[0], SearchPath()).status();
}

// The first word of a line without "--" that is neither a flag nor the value of a flag: probably
// the command.
Words::const_iterator FindCommand(const Words& words) {
  const std::vector<std::string> flags = tools::AllFlags(LaunchSpec());
  for (auto word = words.begin(); word != words.end(); ++word) {
    if (!word->starts_with("-")) return word;
    const size_t name = word->find_first_not_of('-');
    const bool takes_next = name != word->npos && std::find(flags.begin(), flags.end(),
                                                            word->substr(name)) != flags.end();
    if (takes_next && std::next(word) != words.end()) ++word;
  }
  return words.end();
}

std::string Joined(Words::const_iterator begin, Words::const_iterator end) {
  constexpr char kPlain[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=./,:@%+";
  std::string line;
  for (auto word = begin; word != end; ++word) {
    const bool plain = !word->empty() && word->find_first_not_of(kPlain) == word->npos;
    line += " " + (plain ? *word : ShellQuoted(*word));
  }
  return line;
}

}  // namespace

const tools::CommandSpec& LaunchSpec() {
  static const tools::CommandSpec spec = {
      .name = "millrace-launch",
      .job =
          "starts a whole training job: on this host, on other hosts, under mpirun or srun, or in "
          "pods",
      .arguments = "-- COMMAND...",
      .groups = {{"What to start",
                  {"deploy_mode", "num_ps", "num_workers"},
                  {{"deploy_mode", tools::OneOf({"single", "cluster", "cluster2"})}}},
                 {"Where",
                  {"hosts", "ssh", "rendezvous", "ps_hosts", "worker_hosts", "token_file"},
                  {{"rendezvous", tools::Folder()}, {"token_file", tools::File()}}},
                 {"Failures and time limits",
                  {"restart", "start_timeout", "stop_timeout", "server_grace"}},
                 {"Programs and output",
                  {"ps_program", "ps_flags", "tls_cert", "tls_key", "tls_ca", "log_dir",
                   "dashboard"},
                  {{"ps_program", tools::File()},
                   {"tls_cert", tools::File()},
                   {"tls_key", tools::File()},
                   {"tls_ca", tools::File()},
                   {"log_dir", tools::Folder()}}}},
      .always = {"deploy_mode", "num_ps", "num_workers", "hosts", "rendezvous", "restart",
                 "stop_timeout", "log_dir", "dashboard", "worker_hosts", "token_file"},
      .needs = {{{"ssh"}, {"hosts"}},
                {{"ps_hosts"}, {"worker_hosts"}},
                {{"start_timeout"}, {"num_ps", "hosts", "rendezvous"}},
                {{"server_grace", "ps_program", "ps_flags", "tls_cert", "tls_key", "tls_ca"},
                 {"num_ps"}}},
      .examples = {
          "millrace-launch --deploy_mode=cluster2 -- millrace-lr --mode=sync "
          "--train='data/train-*' "
          "--num_features=33762578 --run_dir=runs/1",
          "millrace-launch --num_ps=2 --num_workers=4 --hosts=node1,node2 --restart=3 -- "
          "millrace-lr --mode=async ...",
          "mpirun -n 4 millrace-launch --num_ps=1 --rendezvous=/shared/meet -- millrace-lr "
          "--mode=sync ...",
          "millrace-launch --ps_hosts='ps-{0..1}.clicks:7000' "
          "--worker_hosts='worker-{0..3}.clicks' "
          "--token_file=token -- millrace-lr --mode=sync ...   (in each pod)"}};
  return spec;
}

SplitLine SplitAtDashes(const Words& words) {
  const auto dashes = std::find(words.begin(), words.end(), "--");
  SplitLine line = {.flags = Words(words.begin(), dashes), .command = {}};
  if (dashes != words.end()) line.command.assign(dashes + 1, words.end());
  return line;
}

Status ExplainDashes(const Words& words, const Status& wrong) {
  const std::string message = wrong.message() + "; flags of the program to start come after --";
  if (std::find(words.begin(), words.end(), "--") != words.end()) {
    // The parser has found no similar flag of millrace-launch.
    const bool foreign = wrong.message().ends_with("--help");
    return foreign ? Invalid(message + " and its name") : wrong;
  }
  const auto command = FindCommand(words);
  if (command == words.end()) {
    return Invalid(message + ", as in millrace-launch FLAGS -- millrace-lr FLAGS");
  }
  return Invalid(message + ": millrace-launch" + Joined(words.begin(), command) + " --" +
                 Joined(command, words.end()));
}

Result<LaunchOptions> LaunchOptionsFromFlags(const Words& command, const std::optional<Rank>& rank,
                                             const PodEnvironment& pod) {
  LaunchOptions options;
  ASSIGN_OR_RETURN(options.task, TaskFromFlags(pod));
  if (options.task) {
    RETURN_IF_ERROR(CheckTaskFlags());
    options.shape = options.task->shape();
    options.token_file = FLAGS_token_file;
  } else {
    RETURN_IF_ERROR(CheckRanks(rank));
    ASSIGN_OR_RETURN(options.shape, ShapeFromFlags(FLAGS_rendezvous.empty() ? std::nullopt : rank));
  }
  RETURN_IF_ERROR(
      tools::CheckEffects(LaunchSpec(), {{"num_ps", {std::to_string(options.shape.num_ps)}}}));
  ASSIGN_OR_RETURN(options.hosts, HostsFromFlags());
  ASSIGN_OR_RETURN(options.ssh, SplitWords(FLAGS_ssh));
  if (options.ssh.empty()) return Invalid("--ssh is empty: expected an ssh client");
  ASSIGN_OR_RETURN(options.server, SplitWords(FLAGS_ps_flags));
  options.server.insert(options.server.begin(), FLAGS_ps_program);
  options.worker = command;
  AddTls("tls_cert", FLAGS_tls_cert, options.tls);
  AddTls("tls_key", FLAGS_tls_key, options.tls);
  AddTls("tls_ca", FLAGS_tls_ca, options.tls);
  options.restarts = FLAGS_restart;
  options.log_dir = FLAGS_log_dir;
  options.dashboard_port = static_cast<uint16_t>(FLAGS_dashboard);
  options.rendezvous = FLAGS_rendezvous;
  ASSIGN_OR_RETURN(options.start_timeout_ms, Milliseconds("start_timeout", FLAGS_start_timeout));
  ASSIGN_OR_RETURN(options.stop_timeout_ms, Milliseconds("stop_timeout", FLAGS_stop_timeout));
  ASSIGN_OR_RETURN(options.server_grace_ms, Milliseconds("server_grace", FLAGS_server_grace));
  RETURN_IF_ERROR(CheckCommand(options));
  RETURN_IF_ERROR(CheckPrograms(options));
  return options;
}

}  // namespace millrace::launch
