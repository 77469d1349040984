// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/plan/policy.h"

#include <signal.h>
#include <string.h>

#include <algorithm>

namespace millrace::launch {
namespace {

constexpr int kUsage = 2;
constexpr int kCannotRun = 126;
constexpr int kNotFound = 127;
constexpr int kInterrupted = 128 + SIGINT;

// The same command would fail in the same way again.
bool IsPermanent(const ProcessExit& exit) {
  const bool is_usage_error = exit.status == kUsage && !exit.has_begun;
  return is_usage_error || exit.status == kCannotRun || exit.status == kNotFound || exit.is_repeat;
}

// The servers do not let this worker join again. Only a new start of all processes helps.
bool IsShutOut(const ProcessExit& exit) {
  return exit.status == kUsage && exit.has_begun && exit.is_repeat;
}

bool WasKilled(int status) { return status > 128 && status < 128 + NSIG && status != kInterrupted; }

// The root cause has the lowest rank.
int Rank(const ProcessExit& exit) {
  return (WasKilled(exit.status) ? 0 : 2) + (exit.id.role == Role::kServer ? 0 : 1);
}

template <typename Exits>
auto FindRoot(const Exits& exits) {
  return std::min_element(
      exits.begin(), exits.end(),
      [](const ProcessExit& a, const ProcessExit& b) { return Rank(a) < Rank(b); });
}

}  // namespace

Decision Decide(const ProcessExit& exit, const FailurePolicy& policy) {
  if (policy.is_chief_done) return Decision::kContinue;
  const bool can_restart = policy.restarts_left > 0 && !IsPermanent(exit);
  if (exit.id.role == Role::kServer || IsChief(exit.id))
    return can_restart ? Decision::kRestartJob : Decision::kEndJob;
  if (can_restart) return Decision::kRestartWorker;
  if (policy.survives_workers) return Decision::kContinue;
  return policy.restarts_left > 0 && IsShutOut(exit) ? Decision::kRestartJob : Decision::kEndJob;
}

Decision DecideAll(std::span<const ProcessExit> exits, const FailurePolicy& policy) {
  Decision decision = Decision::kContinue;
  size_t workers = 0;
  for (const ProcessExit& exit : exits) {
    const Decision one = Decide(exit, policy);
    if (one == Decision::kRestartWorker) ++workers;
    decision = std::max(decision, one);
  }
  const bool too_few = workers > policy.restarts_left && !policy.survives_workers;
  return too_few ? std::max(decision, Decision::kRestartJob) : decision;
}

ProcessExit RootCause(std::span<const ProcessExit> exits) { return *FindRoot(exits); }

void MarkRepeat(std::span<ProcessExit> exits, std::span<const ProcessExit> earlier) {
  if (exits.empty()) return;
  ProcessExit& root = *FindRoot(exits);
  if (WasKilled(root.status) || root.last_stderr_line.empty()) return;
  root.is_repeat = std::any_of(earlier.begin(), earlier.end(), [&](const ProcessExit& before) {
    return before.id == root.id && before.status == root.status &&
           before.last_stderr_line == root.last_stderr_line;
  });
}

std::string EndReason(std::span<const ProcessExit> exits, size_t restarts) {
  if (std::any_of(exits.begin(), exits.end(),
                  [](const ProcessExit& exit) { return exit.is_repeat; })) {
    return "; it failed in the same way before its restart";
  }
  if (std::any_of(exits.begin(), exits.end(), IsPermanent))
    return restarts > 0 ? "; the same command would fail again" : "";
  if (restarts > 0)
    return "; all restarts (--restart=" + std::to_string(restarts) + ") are used up";
  const ProcessExit root = RootCause(exits);
  if (!WasKilled(root.status))
    return "; --restart=N would restart it from its last checkpoint, if the cause is temporary";
  if (root.id.role == Role::kWorker && !IsChief(root.id))
    return "; the job needs every worker (--restart=N would restart it)";
  return "; --restart=N would restart it from its last checkpoint";
}

std::string AfterTheEnd() { return " after worker 0 had finished: the result is complete"; }

std::string StatusText(int status) {
  const std::string number = std::to_string(status);
  if (status == kInterrupted) return "was interrupted (status " + number + ")";
  if (status == kNotFound || status == kCannotRun)
    return "could not be started (status " + number + ")";
  if (!WasKilled(status)) return "exited with status " + number;
  const char* name = ::sigabbrev_np(status - 128);
  return "was killed by " +
         (name != nullptr ? "SIG" + std::string(name) : "signal " + std::to_string(status - 128));
}

}  // namespace millrace::launch
