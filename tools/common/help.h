// What a program says of itself, all from its table of flags: help, man page, bash completion,
// version.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/common/flags.h"

namespace millrace::tools {

struct ProgramSpec {
  std::string name;  // "millrace-records"
  std::string job;
  // Either the one command that has the program's own name, or its subcommands.
  std::vector<const CommandSpec*> commands;
};

// A program without subcommands.
ProgramSpec ProgramOf(const CommandSpec& spec);

// "synth" for millrace-records synth; "" where the command is the program.
std::string SubcommandName(const ProgramSpec& program, const CommandSpec& command);

// The flags of `spec` alone, by group, with default and description, and the examples.
std::string HelpText(const CommandSpec& spec);
// The subcommands.
std::string HelpText(const ProgramSpec& program);

// In section 1, for man(7).
std::string ManPage(const ProgramSpec& program);

// A script for bash to source: completes subcommands, flags, the words that a flag takes, and
// names of files and folders where those are expected.
std::string BashCompletion(const ProgramSpec& program);

// Prints what the line asks for instead of work, and returns the exit status; nothing for kRun.
// `command` is what the line was parsed with, null if it named no subcommand.
std::optional<int> Answer(const ProgramSpec& program, const CommandSpec* command,
                          ParsedLine::Action action);
std::optional<int> Answer(const CommandSpec& spec, ParsedLine::Action action);

}  // namespace millrace::tools
