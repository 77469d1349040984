#include "tools/launch/plan/policy.h"

#include <signal.h>
#include <string.h>

#include <algorithm>

namespace millrace::tools {
namespace {

constexpr int kUsage = 2;
constexpr int kCannotRun = 126;
constexpr int kNotThere = 127;
constexpr int kInterrupted = 128 + SIGINT;

// The same command would fail in the same way again.
bool IsHopeless(const Death& death) {
  return death.status == kUsage || death.status == kCannotRun || death.status == kNotThere ||
         death.is_repeat;
}

bool WasKilled(int status) { return status > 128 && status < 128 + NSIG && status != kInterrupted; }

// Less is nearer to the root.
int Rank(const Death& death) {
  return (WasKilled(death.status) ? 0 : 2) + (death.id.role == Role::kServer ? 0 : 1);
}

}  // namespace

Verdict Judge(const Death& death, const FailurePolicy& policy) {
  if (policy.is_chief_done) return Verdict::kGoOn;
  const bool can_restart = policy.restarts_left > 0 && !IsHopeless(death);
  if (death.id.role == Role::kServer || IsChief(death.id))
    return can_restart ? Verdict::kRestartJob : Verdict::kEndJob;
  if (can_restart) return Verdict::kRestartWorker;
  return policy.survives_workers ? Verdict::kGoOn : Verdict::kEndJob;
}

Verdict JudgeAll(std::span<const Death> deaths, const FailurePolicy& policy) {
  Verdict verdict = Verdict::kGoOn;
  size_t workers = 0;
  for (const Death& death : deaths) {
    const Verdict one = Judge(death, policy);
    if (one == Verdict::kRestartWorker) ++workers;
    verdict = std::max(verdict, one);
  }
  const bool too_few = workers > policy.restarts_left && !policy.survives_workers;
  return too_few ? std::max(verdict, Verdict::kRestartJob) : verdict;
}

namespace {

template <typename Deaths>
auto FindRoot(const Deaths& deaths) {
  return std::min_element(deaths.begin(), deaths.end(),
                          [](const Death& a, const Death& b) { return Rank(a) < Rank(b); });
}

}  // namespace

Death RootCause(std::span<const Death> deaths) { return *FindRoot(deaths); }

void MarkRepeat(std::span<Death> deaths, std::span<const Death> earlier) {
  if (deaths.empty()) return;
  Death& root = *FindRoot(deaths);
  if (WasKilled(root.status) || root.last_words.empty()) return;
  root.is_repeat = std::any_of(earlier.begin(), earlier.end(), [&](const Death& before) {
    return before.id == root.id && before.status == root.status &&
           before.last_words == root.last_words;
  });
}

std::string WhyItEnds(std::span<const Death> deaths, size_t restarts) {
  if (std::any_of(deaths.begin(), deaths.end(),
                  [](const Death& death) { return death.is_repeat; })) {
    return "; it failed in the same way before it was started again";
  }
  if (std::any_of(deaths.begin(), deaths.end(), IsHopeless))
    return restarts > 0 ? "; the same command would fail again" : "";
  if (restarts > 0)
    return "; all restarts (--restart=" + std::to_string(restarts) + ") are used up";
  const Death root = RootCause(deaths);
  if (!WasKilled(root.status))
    return "; --restart=N would start it again from its last checkpoint, if the cause may pass";
  if (root.id.role == Role::kWorker && !IsChief(root.id))
    return "; every worker is needed (--restart=N would start it again)";
  return "; --restart=N would start it again from its last checkpoint";
}

std::string StatusText(int status) {
  const std::string number = std::to_string(status);
  if (status == kInterrupted) return "was interrupted (status " + number + ")";
  if (status == kNotThere || status == kCannotRun)
    return "could not be started (status " + number + ")";
  if (!WasKilled(status)) return "exited with status " + number;
  const char* name = ::sigabbrev_np(status - 128);
  return "was killed by " +
         (name != nullptr ? "SIG" + std::string(name) : "signal " + std::to_string(status - 128));
}

}  // namespace millrace::tools
