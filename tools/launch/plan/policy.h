// What a death means for the job.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "tools/launch/plan/placement.h"

namespace millrace::tools {

// A process that ended with a status other than 0. 128 + n stands for signal n, as in a shell.
struct Death {
  ProcessId id;
  int status = 1;
  std::string last_words = {};  // the last line on its standard error
  bool is_repeat = false;       // it ended like that before it was started again
};

struct FailurePolicy {
  bool survives_workers = false;  // async and ssp: the others can go on without one
  bool is_chief_done = false;     // the model is saved: no death matters to it any more
  size_t restarts_left = 0;
};

enum class Verdict {
  kGoOn,           // without it
  kRestartWorker,  // it alone, to rejoin
  kRestartJob,     // everything, from the last checkpoint
  kEndJob,
};

Verdict Judge(const Death& death, const FailurePolicy& policy);

// Of deaths at about the same time. A restart of the whole job costs one, whoever died, and serves
// where there are too few for each of the workers; so kEndJob means that no restart would help.
Verdict JudgeAll(std::span<const Death> deaths, const FailurePolicy& policy);

// Of deaths at about the same time, the one that brought about the others: a process that was
// killed before one that gave up, a server before a worker, an earlier one before a later one.
// `deaths` is not empty, and in the order of their arrival.
Death RootCause(std::span<const Death> deaths);

// Of deaths at about the same time, marks the root cause if it ended by itself with the same words
// as in one of `earlier`: what it found then, such as a damaged record, it will find again. What
// others say who gave up because of it tells nothing.
void MarkRepeat(std::span<Death> deaths, std::span<const Death> earlier);

// What to add to the news that the job ends because of `deaths`, --restart=`restarts` having
// been given: "; all restarts (--restart=2) are used up".
std::string WhyItEnds(std::span<const Death> deaths, size_t restarts);

// "was killed by SIGKILL", "exited with status 1", "was interrupted (status 130)"
std::string StatusText(int status);

}  // namespace millrace::tools
