// How long a run would take without its bottleneck.
#pragma once

#include <string>
#include <vector>

#include "tools/report/step_breakdown.h"

namespace millrace::tools {

// The part of the servers' time inside requests that goes into ops; the rest waits for locks, other
// requests or a core. 1 without traces of servers.
double ServerWorkShare(const std::vector<ServerLoad>& servers);

// Where it is less, a slow server is one that waits: without that it still has its work.
inline constexpr double kServerWorks = 0.5;

// What `split`, of the other workers, would save if worker `straggler` were like them: its waits
// would be as long as those for any other.
double SavedWithoutStraggler(int64_t straggler, const StepSplit& split);

// Seconds that are left when the part `name` ("input", "compute", ...), of `seconds`, takes no
// time: never less than what has to go on all the same beside the training thread, in its input
// threads and on the cores that all processes of the host share. `cores` 0: not known.
double SecondsWithout(const std::string& name, double seconds, const StepSplit& split,
                      double cores);

}  // namespace millrace::tools
