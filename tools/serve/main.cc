// SPDX-License-Identifier: Apache-2.0
// millrace-serve: scores rows over HTTP and Thrift.

#include <gflags/gflags.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <thread>

#include "io/base/printable.h"
#include "io/state/state_fields.h"
#include "tools/common/cluster_flags.h"
#include "tools/common/flags.h"
#include "tools/common/help.h"
#include "tools/common/program.h"
#include "tools/serve/model_follower.h"
#include "tools/serve/service.h"

DEFINE_string(model, "",
              "what to serve: a serving model (of millrace-predict export), any model that "
              "millrace-predict reads, a run folder, or a folder with *.serving files, of which "
              "the newest one is served");
DEFINE_string(listen, millrace::http::ServerOptions{}.host, "IP address to listen on");
DEFINE_uint64(port, 8500, "port to listen on, for HTTP and Thrift; 0: a free one");
DEFINE_uint64(threads, 0, "threads that read, score and respond; 0: one per core");
DEFINE_bool(follow, true, "look for newer models and serve them");
DEFINE_double(poll_seconds, millrace::serve::FollowOptions{}.poll_seconds,
              "seconds between two looks for a newer model");
DEFINE_bool(verify, millrace::serve::FollowOptions{}.verify,
            "check all checksums of a serving model before it is used");
DEFINE_bool(copy_weights, millrace::serve::FollowOptions{}.copy,
            "copy the weights into memory of this process, on large pages: faster for large "
            "models, but processes do not share them");
DEFINE_string(work_dir, millrace::serve::FollowOptions{}.work_dir,
              "folder for a model that is no serving model while it is converted");
DEFINE_string(unknown_fields, "error",
              "a row with a field that the model does not know: error (400), or ignore");
DEFINE_uint64(max_keys, millrace::serve::FollowOptions{}.max_keys,
              "keys that the rows of a request may have: a short one can have very many, by a long "
              "context with many candidates or by crosses of lists");
DEFINE_double(max_body_mb, 1, "largest body of a request, and largest Thrift message, in MB");
DEFINE_uint64(
    max_connections, 4096,
    "open connections; one more closes the one that has completed no request for longest");
DEFINE_double(request_seconds, 10, "seconds that a client has to send a request");
DEFINE_double(response_seconds, 20, "seconds that a client has to receive a response");
DEFINE_double(idle_seconds, 120, "seconds that a connection may have no request");
DEFINE_double(stop_seconds, 10, "seconds that requests have to complete after SIGTERM or Ctrl-C");
DEFINE_bool(insecure_no_token, false,
            "listen without a token on an address that other hosts can reach: anyone may ask");

namespace millrace::serve {
namespace {

constexpr char kProgram[] = "millrace-serve";

const tools::CommandSpec& Spec() {
  static const tools::CommandSpec spec = {
      .name = kProgram,
      .job = "scores rows over HTTP and Thrift, and follows newer models",
      .groups = {{"The model",
                  {"model", "follow", "poll_seconds", "verify", "copy_weights", "work_dir",
                   "unknown_fields"},
                  {{"model", tools::File()},
                   {"work_dir", tools::Folder()},
                   {"unknown_fields", tools::OneOf({"error", "ignore"})}}},
                 {"The server",
                  {"listen", "port", "threads", "token_file", "insecure_no_token", "tls_cert",
                   "tls_key", "tls_ca"},
                  {{"token_file", tools::File()},
                   {"tls_cert", tools::File()},
                   {"tls_key", tools::File()},
                   {"tls_ca", tools::File()}}},
                 {"Limits",
                  {"max_body_mb", "max_keys", "max_connections", "request_seconds",
                   "response_seconds", "idle_seconds", "stop_seconds"}}},
      .always = {"model",           "follow",           "verify",       "copy_weights",
                 "work_dir",        "unknown_fields",   "listen",       "port",
                 "threads",         "token_file",       "tls_cert",     "tls_key",
                 "tls_ca",          "max_body_mb",      "max_keys",     "max_connections",
                 "request_seconds", "response_seconds", "idle_seconds", "stop_seconds"},
      .needs = {{{"poll_seconds"}, {"follow"}}, {{"insecure_no_token"}, {"token_file"}, {""}}},
      .examples = {
          "millrace-serve --model=runs/1 --port=8500",
          "curl -d '{\"rows\": [{\"site\": \"news\", \"age\": 31}]}' localhost:8500/v1/score",
          "millrace-serve --model=/srv/models --listen=10.0.0.5 --token_file=token "
          "--tls_cert=cert.pem --tls_key=key.pem --tls_ca=ca.pem"}};
  return spec;
}

Result<int> Milliseconds(const char* flag, double seconds) {
  if (seconds > 0 && seconds <= 1e6) return std::max(1, static_cast<int>(seconds * 1000));
  return Invalid(std::string("--") + flag + "=" + io::NumberText(seconds) +
                 ": expected more than 0, at most 1000000");
}

Result<FollowOptions> FollowOptionsFromFlags() {
  RETURN_IF_ERROR(tools::CheckEffects(Spec()));
  if (FLAGS_model.empty()) return Invalid("no model: write --model=RUN_DIR, or --model=FILE");
  RETURN_IF_ERROR(Milliseconds("poll_seconds", FLAGS_poll_seconds).status());
  if (FLAGS_max_keys == 0) return Invalid("--max_keys=0: expected at least 1");
  return FollowOptions{.model = FLAGS_model,
                       .work_dir = FLAGS_work_dir,
                       .poll_seconds = FLAGS_poll_seconds,
                       .verify = FLAGS_verify,
                       .copy = FLAGS_copy_weights,
                       .max_keys = FLAGS_max_keys};
}

Result<http::Limits> LimitsFromFlags() {
  http::Limits limits;
  if (!(FLAGS_max_body_mb > 0 && FLAGS_max_body_mb <= 1024)) {
    return Invalid("--max_body_mb=" + io::NumberText(FLAGS_max_body_mb) +
                   ": expected more than 0, at most 1024");
  }
  limits.body_bytes = static_cast<size_t>(FLAGS_max_body_mb * (1 << 20));
  if (FLAGS_max_connections == 0 || FLAGS_max_connections > 1000000) {
    return Invalid("--max_connections=" + std::to_string(FLAGS_max_connections) +
                   ": expected 1 to 1000000");
  }
  limits.connections = FLAGS_max_connections;
  ASSIGN_OR_RETURN(limits.request_ms, Milliseconds("request_seconds", FLAGS_request_seconds));
  ASSIGN_OR_RETURN(limits.response_ms, Milliseconds("response_seconds", FLAGS_response_seconds));
  ASSIGN_OR_RETURN(limits.idle_ms, Milliseconds("idle_seconds", FLAGS_idle_seconds));
  return limits;
}

Result<ServiceOptions> ServiceOptionsFromFlags() {
  ServiceOptions options;
  http::ServerOptions& server = options.server;
  server.host = FLAGS_listen;
  if (FLAGS_port > 65535) {
    return Invalid("--port=" + std::to_string(FLAGS_port) + ": expected 0 to 65535");
  }
  server.port = static_cast<uint16_t>(FLAGS_port);
  if (FLAGS_threads > 1024) {
    return Invalid("--threads=" + std::to_string(FLAGS_threads) + ": expected at most 1024");
  }
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  server.threads = FLAGS_threads > 0 ? static_cast<int>(FLAGS_threads) : static_cast<int>(cores);
  ASSIGN_OR_RETURN(server.limits, LimitsFromFlags());
  ASSIGN_OR_RETURN(const ps::TlsFiles tls, tools::TlsFromFlags());
  server.tls_cert = tls.cert;
  server.tls_key = tls.key;
  server.tls_ca = tls.ca;
  ASSIGN_OR_RETURN(options.token, tools::TokenFromFlags());
  const bool loopback = ps::IsLoopback(server.host);
  if (options.token.empty() && !loopback && !FLAGS_insecure_no_token) {
    return Invalid("other hosts can reach the address " + server.host +
                   ", and without a token anyone may ask: write --token_file=FILE (mode 600), or "
                   "--insecure_no_token");
  }
  if (FLAGS_insecure_no_token && loopback) {
    return Invalid("--insecure_no_token has no effect on the loopback address " + server.host);
  }
  // A page of another site does not know the token.
  server.only_local_names = loopback && options.token.empty();
  options.unknown =
      FLAGS_unknown_fields == "ignore" ? UnknownFields::kIgnore : UnknownFields::kError;
  return options;
}

void Note(const std::string& text) {
  std::fprintf(stderr, "%s: %s\n", kProgram, PrintableLines(text).c_str());
}

// Each connection has a descriptor.
void AllowDescriptors(size_t connections) {
  constexpr rlim_t kOthers = 64;
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = connections + kOthers;
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < wanted) {
    Note("the limit of open files (ulimit -n) is " + std::to_string(limit.rlim_cur) +
         ", too low for --max_connections=" + std::to_string(connections));
  }
}

Status Run() {
  ASSIGN_OR_RETURN(const FollowOptions follow, FollowOptionsFromFlags());
  ASSIGN_OR_RETURN(const ServiceOptions options, ServiceOptionsFromFlags());
  ASSIGN_OR_RETURN(const int stop_ms, Milliseconds("stop_seconds", FLAGS_stop_seconds));
  AllowDescriptors(options.server.limits.connections);
  Metrics metrics;
  ASSIGN_OR_RETURN(const auto follower, ModelFollower::Open(follow, metrics, Note));
  ASSIGN_OR_RETURN(const auto service, Service::Start(options, *follower, metrics));
  if (!options.token.empty() && options.server.tls_cert.empty() &&
      !ps::IsLoopback(options.server.host)) {
    Note("warning: without TLS the token of HTTP requests travels as it is");
  }
  const bool v6 = options.server.host.find(':') != std::string::npos;
  std::printf("%s: serves %s on %s%s%s:%d\n", kProgram,
              PrintableLines(follower->file().path).c_str(), v6 ? "[" : "",
              options.server.host.c_str(), v6 ? "]" : "", service->port());
  std::fflush(stdout);
  if (FLAGS_follow) follower->Follow();
  constexpr int kTickMs = 100;
  while (!tools::Interrupted()) ::poll(nullptr, 0, kTickMs);  // a signal ends it
  service->Drain(stop_ms);
  Note("stopped");
  return {};
}

int Main(const std::vector<std::string>& words) {
  const Result<tools::ParsedLine> line = tools::ParseLine(Spec(), {}, words);
  if (!line.ok()) return tools::Fail(kProgram, line.status());
  if (const auto exit_status = tools::Answer(Spec(), line->action)) return *exit_status;
  tools::CatchInterrupts();
  tools::IgnoreBrokenPipes();
  const Status status = Run();
  return status.ok() ? 0 : tools::Fail(kProgram, status);
}

}  // namespace
}  // namespace millrace::serve

int main(int argc, char** argv) {
  return millrace::tools::ProgramMain(millrace::serve::kProgram, millrace::serve::Main, argc, argv);
}
