// SPDX-License-Identifier: Apache-2.0
// The command line of millrace-launch.
#pragma once

#include <optional>

#include "io/base/status.h"
#include "tools/common/flags.h"
#include "tools/launch/environment.h"
#include "tools/launch/launch_options.h"

namespace millrace::launch {

const tools::CommandSpec& LaunchSpec();

// A command line, split at the first "--".
struct SplitLine {
  Words flags;
  Words command;
};
SplitLine SplitAtDashes(const Words& words);

// The error `wrong` of the command line `words`, with the right command line if the "--" before the
// command is missing or flags of the command come before it.
Status ExplainDashes(const Words& words, const Status& wrong);

// The options from the parsed flags and the command after "--". `rank` is that of mpirun or srun.
// Checks everything that can be checked without starting a process.
Result<LaunchOptions> LaunchOptionsFromFlags(const Words& command, const std::optional<Rank>& rank,
                                             const PodEnvironment& pod);

}  // namespace millrace::launch
