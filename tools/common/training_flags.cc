// SPDX-License-Identifier: Apache-2.0
#include "tools/common/training_flags.h"

#include <gflags/gflags.h>

#include "tools/common/cluster_flags.h"
#include "tools/common/run_record.h"

DECLARE_string(job_name);
DECLARE_uint64(task_index);

DEFINE_string(run_dir, "",
              "folder for metrics, checkpoints, model and trace; empty: no files are written");
DEFINE_bool(overwrite, false, "replace an earlier run in run_dir");
DEFINE_bool(resume, false, "continue from the newest checkpoint in run_dir");
DEFINE_uint64(checkpoint_every, 0, "training examples between checkpoints; 0: only after Ctrl-C");
DEFINE_string(
    model_in, "",
    "start from the weights of this model, without optimizer state: a file, or a run folder (with "
    "--resume: only if there is no checkpoint)");
DEFINE_string(model_out, "", "file for the model; empty: run_dir/model");
DEFINE_bool(profile, false, "write a trace of every op to run_dir; millrace-report reads it");
DEFINE_string(profile_steps, "", "FIRST:LAST, such as 100:120: trace these steps only");
DEFINE_uint64(sample_ms, millrace::profiler::SessionOptions{}.sample_ms,
              "milliseconds between samples of CPU, memory, disk and network in run_dir; 0: none");

DEFINE_string(
    mode, "single",
    "single (one process); with servers: sync (a step sums the gradients of all workers), async "
    "(a gradient is applied when it arrives), ssp (async with bounded staleness)");
DEFINE_uint64(staleness, millrace::ps::JobConfig{}.staleness,
              "ssp: maximum number of steps that a worker may be ahead of the slowest");
DEFINE_uint64(
    replicas_to_aggregate, 0,
    "sync: number of gradients per step, later ones are dropped; 0: those of all workers");
DEFINE_bool(wire_bf16, false, "send gradients as bfloat16 (8 bits of precision)");
DEFINE_bool(wire_zstd, false, "compress gradients and weights on the wire");
DEFINE_double(
    reconnect_seconds, millrace::ps::WaitOptions{}.reconnect_s,
    "seconds that a worker tries to reach a lost server again before it gives up; at least "
    "one try");
DEFINE_bool(rejoin, false, "this worker was part of the job before and rejoins it");

namespace millrace::tools {

FlagGroup RunFlags(const FlagGroup& more) {
  FlagGroup group = {
      "Output",
      {"run_dir", "overwrite", "resume", "checkpoint_every", "model_in", "model_out"},
      {{"run_dir", Folder()}, {"model_in", File()}, {"model_out", File()}}};
  group.flags.insert(group.flags.end(), more.flags.begin(), more.flags.end());
  group.flags.insert(group.flags.end(), {"profile", "profile_steps", "sample_ms"});
  group.values.insert(more.values.begin(), more.values.end());
  return group;
}

FlagGroup WorkerFlags() {
  FlagGroup group = ServerFlags();
  group.title = "Training with servers";
  group.flags.insert(group.flags.begin(),
                     {"mode", "staleness", "replicas_to_aggregate", "wire_bf16", "wire_zstd",
                      "reconnect_seconds", "rejoin"});
  group.values["mode"] = OneOf({"single", "sync", "async", "ssp"});
  return group;
}

CommandSpec WithTrainingEffects(CommandSpec spec) {
  spec.always.insert(spec.always.end(), {"run_dir", "model_in", "model_out", "mode"});
  const std::vector<Needs> rows = {
      {{"overwrite", "resume", "checkpoint_every", "profile", "profile_steps", "sample_ms"},
       {"run_dir"}},
      {{"staleness"}, {"mode"}, {"ssp"}},
      {{"replicas_to_aggregate"}, {"mode"}, {"sync"}},
      {{"wire_bf16", "wire_zstd", "reconnect_seconds", "rejoin", "ps_hosts", "worker_hosts",
        "job_name", "task_index", "token_file", "tls_cert", "tls_key", "tls_ca"},
       {"mode"},
       {"sync", "async", "ssp"}}};
  spec.needs.insert(spec.needs.end(), rows.begin(), rows.end());
  return spec;
}

Status CheckTrainingFlags() {
  if (FLAGS_mode == "single" && !FLAGS_job_name.empty()) {
    return Invalid(
        "a job with servers needs a mode: add --mode=sync or --mode=async (or ssp) to the "
        "program's flags, after -- on the command line of millrace-launch");
  }
  if (FLAGS_sample_ms > 3600000) {
    return Invalid("--sample_ms=" + std::to_string(FLAGS_sample_ms) +
                   ": expected at most an hour, 3600000");
  }
  if (FLAGS_resume && FLAGS_overwrite)
    return Invalid("--resume and --overwrite: expected one of them");
  const bool saves = FLAGS_mode == "single" || FLAGS_task_index == 0;
  return saves ? CheckModelOut(FLAGS_model_out) : Status();
}

trainer::RunFolderOptions RunFolderFromFlags() {
  return {.path = FLAGS_run_dir, .resume = FLAGS_resume, .overwrite = FLAGS_overwrite};
}

Result<profiler::SessionOptions> ProfileFromFlags() {
  profiler::SessionOptions profile;
  profile.run_dir = FLAGS_run_dir;
  profile.process = "worker-" + std::to_string(FLAGS_mode == "single" ? 0 : FLAGS_task_index);
  profile.trace = FLAGS_profile || !FLAGS_profile_steps.empty();
  profile.sample_ms = static_cast<int>(FLAGS_sample_ms);
  if (FLAGS_profile_steps.empty()) return profile;
  const std::string error = profiler::ParseStepWindow(FLAGS_profile_steps, profile.trace_options);
  if (!error.empty()) return Invalid("--profile_steps: " + error);
  return profile;
}

Result<std::optional<ps::SessionOptions>> SessionFromFlags() {
  if (FLAGS_mode == "single") return std::optional<ps::SessionOptions>();
  ps::SessionOptions session;
  ASSIGN_OR_RETURN(session.config.mode, ps::ModeFromName(FLAGS_mode));
  if (FLAGS_job_name != "worker") {
    return Invalid("--mode=" + FLAGS_mode +
                   " needs servers: expected --job_name=worker with --ps_hosts and "
                   "--worker_hosts, or start the whole job with millrace-launch");
  }
  ASSIGN_OR_RETURN(session.thrift.servers, PsHostsFromFlags());
  ASSIGN_OR_RETURN(session.thrift.tls, TlsFromFlags());
  session.config.num_workers = WorkerHostsFromFlags().size();
  session.config.num_shards = session.thrift.servers.size();
  session.config.staleness = FLAGS_staleness;
  session.config.replicas_to_aggregate = FLAGS_replicas_to_aggregate;
  session.config.bf16 = FLAGS_wire_bf16;
  session.config.zstd = FLAGS_wire_zstd;
  session.worker = FLAGS_task_index;
  session.rejoin = FLAGS_rejoin;
  session.wait.reconnect_s = FLAGS_reconnect_seconds;
  session.name = ProcessName();
  ASSIGN_OR_RETURN(session.token, TokenFromFlags());
  RETURN_IF_ERROR(session.Validate());
  return std::optional(std::move(session));
}

}  // namespace millrace::tools
