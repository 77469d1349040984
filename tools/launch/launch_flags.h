// The command line of millrace-launch.
#pragma once

#include <optional>

#include "io/base/status.h"
#include "tools/common/flags.h"
#include "tools/launch/environment.h"
#include "tools/launch/launch_options.h"

namespace millrace::tools {

const CommandSpec& LaunchSpec();

// `words` cut at the first "--".
struct SplitLine {
  Words flags;
  Words command;
};
SplitLine SplitAtDashes(const Words& words);

// What was wrong with the flags of the line `words`, with what to write if the "--" before the
// command was forgotten or flags of the command stand before it.
Status ExplainDashes(const Words& words, const Status& wrong);

// From the flags that were parsed and the command behind "--". `rank` is what mpirun or srun say.
// Everything that can be checked without starting a process has been checked then.
Result<LaunchOptions> LaunchOptionsFromFlags(const Words& command, const std::optional<Rank>& rank);

}  // namespace millrace::tools
