// SPDX-License-Identifier: Apache-2.0
// The command lines of a job's processes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/status.h"

namespace millrace::launch {

using Words = std::vector<std::string>;

// The value of a flag in a command: --name=value or --name value, with one or two dashes. The last
// one counts. A flag without a value has the value "".
std::optional<std::string> FlagIn(const Words& command, std::string_view name);

// Splits at spaces; '...' and "..." keep spaces, a backslash keeps the next character.
Result<Words> SplitWords(std::string_view text);

// `text` as one word for a shell.
std::string ShellQuoted(const std::string& text);

// The flags that millrace-launch adds for every process of a job. The token is not among them: it
// never appears on a command line.
struct JobFlags {
  size_t num_ps = 0;
  size_t num_workers = 1;
  std::vector<std::string> ps_hosts;      // HOST:PORT of each server, for workers
  std::vector<std::string> worker_hosts;  // the host of each worker
  Words tls;                              // --tls_cert=... and so on
};

enum class Start { kFirst, kRejoin, kResume };

// `listen` is HOST:PORT. The server gets --run_dir and --profile if `worker` has them.
Words ServerCommand(const Words& server, const Words& worker, const JobFlags& job, size_t index,
                    const std::string& listen);

// In a job without servers, `worker` itself. A process that is restarted needs the earlier files,
// so
// --overwrite is removed for kRejoin and kResume.
Words WorkerCommand(const Words& worker, const JobFlags& job, size_t index, Start start);

// The command that runs `words` on the host `destination`. OpenSSH gets options that make it fail
// instead of prompting, and that detect a lost host within seconds. Options in `ssh` come first and
// so take precedence.
Words RemoteCommand(const Words& ssh, const std::string& destination, const Words& words);

}  // namespace millrace::launch
