// SPDX-License-Identifier: Apache-2.0
// The help text, man page, bash completion and version of a program, generated from its flags.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/common/flags.h"

namespace millrace::tools {

struct ProgramSpec {
  std::string name;  // "millrace-records"
  std::string job;
  // The command with the name of the program, if it has one; then the subcommands.
  std::vector<const CommandSpec*> commands;
};

// A program without subcommands.
ProgramSpec ProgramOf(const CommandSpec& spec);

// "synth" for millrace-records synth; "" if the program has no subcommands.
std::string SubcommandName(const ProgramSpec& program, const CommandSpec& command);

// The flags of `spec` by group, with defaults and descriptions, and the examples.
std::string HelpText(const CommandSpec& spec);
// The list of subcommands.
std::string HelpText(const ProgramSpec& program);

// A page of section 1 for man(7).
std::string ManPage(const ProgramSpec& program);

// A script for bash to source. It completes subcommands, flags, the allowed words of a flag, and
// names of files and folders.
std::string BashCompletion(const ProgramSpec& program);

// Prints the help, man page, completion script or version that `action` requests and returns the
// exit status; nothing for kRun. `command` is the parsed command, null if the line has no
// subcommand.
std::optional<int> Answer(const ProgramSpec& program, const CommandSpec* command,
                          ParsedLine::Action action);
std::optional<int> Answer(const CommandSpec& spec, ParsedLine::Action action);

}  // namespace millrace::tools
