// SPDX-License-Identifier: Apache-2.0
// Decides what the launcher does when processes of the job fail.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "tools/launch/plan/placement.h"

namespace millrace::launch {

// The exit of a process with a status other than 0. 128 + n is signal n, as in a shell.
struct ProcessExit {
  ProcessId id;
  int status = 1;
  std::string last_stderr_line = {};
  bool is_repeat = false;  // the process failed in the same way before its restart
  // The run had begun, so the command line was valid: status 2 is then a refusal by the servers.
  bool has_begun = false;
};

struct FailurePolicy {
  bool survives_workers = false;  // async and ssp: other workers can continue without one
  bool is_chief_done = false;     // the model is saved, so no later failure matters
  size_t restarts_left = 0;
};

// In the order of severity.
enum class Decision {
  kContinue,       // without the process
  kRestartWorker,  // only this one, to rejoin
  kRestartJob,     // all processes, from the last checkpoint
  kEndJob,
};

Decision Decide(const ProcessExit& exit, const FailurePolicy& policy);

// The decision for exits at about the same time. A restart of the whole job uses one restart,
// however many processes failed. It is chosen when there are too few restarts for the workers one
// by one, so kEndJob means that no restart would help.
Decision DecideAll(std::span<const ProcessExit> exits, const FailurePolicy& policy);

// The exit that caused the other exits at about the same time: a killed process before one that
// failed by itself, a server before a worker, an earlier one before a later one. `exits` is not
// empty and in the order of arrival.
ProcessExit RootCause(std::span<const ProcessExit> exits);

// Sets is_repeat of the root cause if it was not killed and `earlier` has an exit of the same
// process with the same status and last stderr line: what it found then, such as a corrupt record,
// it would find again. The other exits are only consequences, so they are not compared.
void MarkRepeat(std::span<ProcessExit> exits, std::span<const ProcessExit> earlier);

// The reason for kEndJob, as the end of a message: "; all restarts (--restart=2) are used up".
// `restarts` is the value of --restart.
std::string EndReason(std::span<const ProcessExit> exits, size_t restarts);

// The end of a message about a process that fails when worker 0 has exited with status 0.
std::string AfterTheEnd();

// "was killed by SIGKILL", "exited with status 1", "was interrupted (status 130)"
std::string StatusText(int status);

}  // namespace millrace::launch
