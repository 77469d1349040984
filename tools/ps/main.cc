// SPDX-License-Identifier: Apache-2.0
// millrace-ps: one server shard of a job.

#include <gflags/gflags.h>

#include <cstdio>
#include <cstdlib>

#include "io/state/state_fields.h"
#include "profiler/session.h"
#include "ps/server/server.h"
#include "tools/common/cluster_flags.h"
#include "tools/common/flags.h"
#include "tools/common/help.h"
#include "tools/common/program.h"
#include "tools/common/progress.h"

DECLARE_string(job_name);
DECLARE_uint64(task_index);
DEFINE_string(listen, "127.0.0.1:0", "HOST:PORT to listen on; port 0: a free one");
DEFINE_uint64(num_ps, 1, "number of servers of the job");
DEFINE_uint64(num_workers, 1, "number of workers of the job");
DEFINE_string(run_dir, "", "run folder for checkpoints; empty: no checkpoints");
DEFINE_double(rejoin_seconds, 4, "seconds that the job waits for a lost worker to rejoin");
DEFINE_bool(insecure_no_token, false,
            "listen without a token on an address that other hosts can reach: any peer may join");
DEFINE_bool(profile, false, "write a trace of every op to run_dir");
DEFINE_uint64(sample_ms, millrace::profiler::SessionOptions{}.sample_ms,
              "milliseconds between samples of CPU, memory, disk and network; 0: none");

namespace millrace::ps_server {
namespace {

constexpr char kProgram[] = "millrace-ps";

const tools::CommandSpec& Spec() {
  static const tools::CommandSpec spec = {
      .name = kProgram,
      .job = "holds one shard of the model for the workers of a job",
      .groups = {{"This server",
                  {"listen", "num_ps", "num_workers", "run_dir", "rejoin_seconds",
                   "insecure_no_token", "profile", "sample_ms"},
                  {{"run_dir", tools::Folder()}}},
                 tools::ServerFlags()},
      .always = {"run_dir", "rejoin_seconds", "ps_hosts", "job_name", "task_index", "token_file",
                 "tls_cert", "tls_key", "tls_ca"},
      .needs = {{{"listen", "num_ps", "num_workers"}, {"ps_hosts"}, {""}},
                {{"worker_hosts"}, {"ps_hosts"}},
                {{"insecure_no_token"}, {"token_file"}, {""}},
                {{"profile", "sample_ms"}, {"run_dir"}}},
      .examples = {
          "millrace-ps --listen=127.0.0.1:7000 --num_workers=3 --run_dir=runs/1",
          "millrace-ps --ps_hosts=a:7000,b:7000 --worker_hosts=a,b,c --job_name=ps "
          "--task_index=1 --token_file=token",
          "millrace-launch --deploy_mode=cluster2 -- millrace-lr --mode=sync ...   (starts "
          "servers itself)"}};
  return spec;
}

Result<ps::ServerOptions> OptionsFromFlags() {
  RETURN_IF_ERROR(tools::CheckEffects(Spec()));
  if (!FLAGS_job_name.empty() && FLAGS_job_name != "ps") {
    return Invalid("--job_name=" + FLAGS_job_name + ": expected ps");
  }
  if (!(FLAGS_rejoin_seconds >= 0 && FLAGS_rejoin_seconds <= 1e6)) {
    return Invalid("--rejoin_seconds=" + io::NumberText(FLAGS_rejoin_seconds) +
                   ": expected 0 to 1000000");
  }
  if (FLAGS_sample_ms > 3600000) {
    return Invalid("--sample_ms=" + std::to_string(FLAGS_sample_ms) +
                   ": expected at most an hour, 3600000");
  }
  ps::ServerOptions options;
  options.shard.shard = FLAGS_task_index;
  options.shard.num_shards = FLAGS_num_ps;
  options.shard.num_workers = FLAGS_num_workers;
  ps::HostPort address;
  ASSIGN_OR_RETURN(const auto ps_hosts, tools::PsHostsFromFlags());
  if (!ps_hosts.empty()) {
    options.shard.num_shards = ps_hosts.size();
    options.shard.num_workers = tools::WorkerHostsFromFlags().size();
    if (FLAGS_task_index >= ps_hosts.size()) {
      return Invalid("--task_index=" + std::to_string(FLAGS_task_index) + ": expected below the " +
                     std::to_string(ps_hosts.size()) + " of --ps_hosts");
    }
    address = ps_hosts[FLAGS_task_index];
  } else {
    const Result<ps::HostPort> parsed = ps::ParseHostPort(FLAGS_listen);
    if (!parsed.ok()) return Invalid("--listen: " + parsed.status().message());
    address = *parsed;
  }
  options.host = address.host;
  options.port = address.port;
  ASSIGN_OR_RETURN(options.tls, tools::TlsFromFlags());
  ASSIGN_OR_RETURN(options.token, tools::TokenFromFlags());
  options.insecure_no_token = FLAGS_insecure_no_token;
  if (options.token.empty() && !FLAGS_insecure_no_token && !ps::IsLoopback(options.host)) {
    return Invalid("other hosts can reach the address " + options.host +
                   ", and without a token any peer may join: give all processes of the job the "
                   "same --token_file=FILE (mode 600), or this server --insecure_no_token");
  }
  if (!FLAGS_run_dir.empty()) {
    options.shard.checkpoints =
        FLAGS_run_dir + "/checkpoints/shard-" + std::to_string(FLAGS_task_index);
  }
  options.shard.rejoin_ns = static_cast<int64_t>(FLAGS_rejoin_seconds * 1e9);
  options.shard.on_note = [](const std::string& note) {
    std::fprintf(stderr, "%s: %s\n", kProgram, note.c_str());
  };
  RETURN_IF_ERROR(options.Validate());
  return options;
}

profiler::SessionOptions ProfileFromFlags() {
  return {.run_dir = FLAGS_run_dir,
          .process = "ps-" + std::to_string(FLAGS_task_index),
          .trace = FLAGS_profile,
          .sample_ms = static_cast<int>(FLAGS_sample_ms)};
}

int Serve(const ps::ServerOptions& options) {
  const auto server = ps::Server::Start(options);
  if (!server.ok()) return tools::Fail(kProgram, server.status());
  const bool v6 = options.host.find(':') != std::string::npos;
  std::printf("%s: shard %zu of %zu listening on %s%s%s:%d\n", kProgram, options.shard.shard,
              options.shard.num_shards, v6 ? "[" : "", options.host.c_str(), v6 ? "]" : "",
              (*server)->port());
  std::fflush(stdout);
  // The chief has prepared the run folder when the job begins. Without a job the folder is not
  // changed.
  const bool begun = (*server)->WaitBegun(tools::Interrupted);
  profiler::Session profile;
  const std::string started = begun ? profile.Start(ProfileFromFlags()) : "";
  const Status status = (*server)->Wait(tools::Interrupted);
  const std::string finished = begun ? profile.Finish() : "";
  const ps::Server::Summary s = (*server)->summary();
  std::printf(
      "%s: shard %zu served %s steps, %s messages, %s in, %s out, %s rejected, %s corrupt\n",
      kProgram, options.shard.shard, tools::WithCommas(s.steps).c_str(),
      tools::WithCommas(s.messages).c_str(), tools::BytesText(s.bytes_in).c_str(),
      tools::BytesText(s.bytes_out).c_str(), tools::WithCommas(s.refused).c_str(),
      tools::WithCommas(s.corrupt).c_str());
  for (const std::string& error : {started, finished}) {
    if (!error.empty()) return tools::Fail(kProgram, Status(Code::kIo, error));
  }
  if (status.code() == Code::kCancelled) return tools::kExitInterrupted;
  return status.ok() ? 0 : tools::Fail(kProgram, status);
}

int Main(const std::vector<std::string>& words) {
  const Result<tools::ParsedLine> line = tools::ParseLine(Spec(), {}, words);
  if (!line.ok()) return tools::Fail(kProgram, line.status());
  if (const auto exit_status = tools::Answer(Spec(), line->action)) return *exit_status;
  const Result<ps::ServerOptions> options = OptionsFromFlags();
  if (!options.ok()) return tools::Fail(kProgram, options.status());
  tools::CatchInterrupts();
  tools::IgnoreBrokenPipes();
  return Serve(*options);
}

}  // namespace
}  // namespace millrace::ps_server

int main(int argc, char** argv) {
  return millrace::tools::ProgramMain(millrace::ps_server::kProgram, millrace::ps_server::Main,
                                      argc, argv);
}
