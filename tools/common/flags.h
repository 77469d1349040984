// The command line of a program or of one of its subcommands: gflags holds the values, this file
// parses and explains.
//
//   DEFINE_uint64(rows, SynthOptions{}.rows, "training rows");
//   const CommandSpec spec = {.name = "millrace-records synth",
//                             .job = "makes data",
//                             .groups = {{"Size", {"rows"}}}};
//   Result<ParsedLine> line = ParseLine(spec, {}, words);
//
// help.h makes the help text, the man page and the bash completion from the same spec.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/base/status.h"

namespace millrace::tools {

// What is left of a command line when its flags are taken out.
using Args = std::vector<std::string>;

// What the value of a text flag is. One of `words` where there are some: any other is an error.
struct ValueKind {
  enum class Form { kText, kWord, kFile, kFolder };
  Form form = Form::kText;
  std::vector<std::string> words = {};
};
inline ValueKind OneOf(std::vector<std::string> words) {
  return {ValueKind::Form::kWord, std::move(words)};
}
inline ValueKind File() { return {.form = ValueKind::Form::kFile}; }
inline ValueKind Folder() { return {.form = ValueKind::Form::kFolder}; }

struct FlagGroup {
  std::string title;
  std::vector<std::string> flags;                // gflags names, in the order of the help text
  std::map<std::string, ValueKind> values = {};  // of those flags that are more than any text
};

struct CommandSpec {
  std::string name;            // as it is typed: "millrace-records synth"
  std::string job;             // one line, a verb first: "makes Criteo-like data"
  std::string arguments = {};  // such as "FILE..."; empty: one that is given is an error
  std::vector<FlagGroup> groups = {};
  std::vector<std::string> examples = {};  // whole command lines
};

struct ParsedLine {
  enum class Action { kRun, kHelp, kManPage, kBashCompletion, kVersion };
  Action action = Action::kRun;
  Args args;
};

// Sets the gflags variables from `words` (the command line without program and subcommand). Takes
// --flag=value,
// --flag value, --bool, --nobool, one dash or two, - for _, and -- as the end of the flags. Errors
// say what to write instead; `siblings` are the other subcommands, whose flags get a message of
// their own.
Result<ParsedLine> ParseLine(const CommandSpec& spec, std::span<const CommandSpec* const> siblings,
                             std::span<const std::string> words);

// Names and values of all flags of `spec`, in the order of the help text.
std::vector<std::pair<std::string, std::string>> FlagValues(const CommandSpec& spec);

// The candidate closest to `word`, or "" when none is near.
std::string Nearest(std::string_view word, std::span<const std::string> candidates);

constexpr int kExitFailure = 1;        // the work failed
constexpr int kExitUsage = 2;          // the command line cannot be
constexpr int kExitInterrupted = 130;  // stopped by Ctrl-C or SIGTERM

// Prints "program: message" on standard error. Returns the exit status: kExitUsage for
// Code::kInvalid, kExitInterrupted for Code::kCancelled after a signal (a job that others ended is
// cancelled without one), else kExitFailure.
int Fail(std::string_view program, const Status& status);

}  // namespace millrace::tools
