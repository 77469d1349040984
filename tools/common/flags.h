// The command line of a program or of one of its subcommands: gflags holds the values, this file
// parses and explains.
//
//   DEFINE_uint64(rows, SynthOptions{}.rows, "training rows");
//   const CommandSpec spec = {.name = "millrace-records synth", .job = "makes data", .groups =
//   {{"Size", {"rows"}}}}; Result<ParsedLine> line = ParseLine(spec, {}, words);
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/base/status.h"

namespace millrace::tools {

// What is left of a command line when its flags are taken out.
using Args = std::vector<std::string>;

struct FlagGroup {
  std::string title;
  std::vector<std::string> flags;  // gflags names, in the order of the help text
};

struct CommandSpec {
  std::string name;  // as it is typed: "millrace-records synth"
  std::string job;   // one line, a verb first: "makes Criteo-like data"
  std::string arguments =
      {};  // such as "FILE..."; empty: takes none, and one that is given is an error
  std::vector<FlagGroup> groups = {};
  std::vector<std::string> examples = {};  // whole command lines
};

struct ParsedLine {
  enum class Action { kRun, kHelp, kVersion };
  Action action = Action::kRun;
  Args args;
};

// Sets the gflags variables from `words` (the command line without program and subcommand). Takes
// --flag=value,
// --flag value, --bool, --nobool, one dash or two, - for _, and -- as the end of the flags. Errors
// say what to write instead; `siblings` are the other subcommands, whose flags get a message of
// their own.
io::Result<ParsedLine> ParseLine(const CommandSpec& spec,
                                 std::span<const CommandSpec* const> siblings,
                                 std::span<const std::string> words);

// The flags of `spec` alone, by group, with default and description, and the examples.
std::string HelpText(const CommandSpec& spec);

// Names and values of all flags of `spec`, in the order of the help text.
std::vector<std::pair<std::string, std::string>> FlagValues(const CommandSpec& spec);

// "millrace-records 0.1.0\n"
std::string VersionText(std::string_view program);

// The candidate closest to `word`, or "" when none is near.
std::string Nearest(std::string_view word, std::span<const std::string> candidates);

constexpr int kExitFailure = 1;  // the work failed
constexpr int kExitUsage = 2;    // the command line cannot be

// Prints "program: message" on standard error. Returns the exit status: kExitUsage for
// Code::kInvalid, else kExitFailure.
int Fail(std::string_view program, const io::Status& status);

}  // namespace millrace::tools
