// The command lines of a job's processes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/status.h"

namespace millrace::tools {

using Words = std::vector<std::string>;

// The value of a flag among the words of a command: of --name=value, --name value, and with one
// dash; the last one counts. A flag without a value has the value "".
std::optional<std::string> FlagIn(const Words& command, std::string_view name);

// Splits at spaces; '...' and "..." keep spaces, a backslash keeps the next character.
Result<Words> SplitWords(std::string_view text);

// What every process of a job is told. All but the token, which never stands on a command line.
struct JobFlags {
  size_t num_ps = 0;
  size_t num_workers = 1;
  std::vector<std::string> ps_hosts;      // HOST:PORT of each server, for workers
  std::vector<std::string> worker_hosts;  // the host of each worker
  Words tls;                              // --tls_cert=... and so on
};

enum class Start { kFirst, kRejoin, kResume };

// `listen` is HOST:PORT. The server keeps its checkpoints where the worker's command has its run,
// and writes a trace if the worker does.
Words ServerCommand(const Words& server, const Words& worker, const JobFlags& job, size_t index,
                    const std::string& listen);

// A job without servers runs the command as it is. An --overwrite would take away what a process
// that is started again needs, so it is left out then.
Words WorkerCommand(const Words& worker, const JobFlags& job, size_t index, Start start);

}  // namespace millrace::tools
