// SPDX-License-Identifier: Apache-2.0
// Parses the command line of a program or of one of its subcommands. gflags holds the values.
//
//   DEFINE_uint64(rows, SynthOptions{}.rows, "training rows");
//   const CommandSpec spec = {.name = "millrace-records synth",
//                             .job = "makes data",
//                             .groups = {{"Size", {"rows"}}}};
//   Result<ParsedLine> line = ParseLine(spec, {}, words);
//
// help.h generates the help text, the man page and the bash completion from the same spec.
#pragma once

#include <gflags/gflags.h>

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/base/status.h"

namespace millrace::tools {

// The words of a command line that are not flags.
using Args = std::vector<std::string>;

// The kind of value of a text flag. If `words` is not empty, any other value is an error.
struct ValueKind {
  enum class Form { kText, kWord, kFile, kFolder };
  Form form = Form::kText;
  std::vector<std::string> words = {};
  bool may_be_remote = false;  // a file: s3://, https:// and http:// are allowed
};
inline ValueKind OneOf(std::vector<std::string> words) {
  return {ValueKind::Form::kWord, std::move(words)};
}
inline ValueKind File() { return {.form = ValueKind::Form::kFile}; }
inline ValueKind InputFile() {
  return {.form = ValueKind::Form::kFile, .words = {}, .may_be_remote = true};
}
inline ValueKind Folder() { return {.form = ValueKind::Form::kFolder}; }

struct FlagGroup {
  std::string title;
  std::vector<std::string> flags;                // gflags names, in the order of the help text
  std::map<std::string, ValueKind> values = {};  // of the flags that do not take any text
};

// When flags have an effect: one of the flags `with` must have a suitable value.
//
//   {{"l1", "ftrl_beta"}, {"optimizer"}, {"ftrl"}}   only with --optimizer=ftrl
//   {{"eval_every"}, {"test"}}                       only if --test is set
//   {{"listen"}, {"ps_hosts"}, {""}}                 only if --ps_hosts is not set
struct Needs {
  std::vector<std::string> flags;
  std::vector<std::string> with;
  std::vector<std::string> values = {};                  // suitable; empty: any but `except`
  std::vector<std::string> except = {"", "0", "false"};  // flags that are not set
  std::string text = {};  // "--epochs of 2 or more", if `values` and `except` do not say it well
};

struct CommandSpec {
  std::string name;            // as typed: "millrace-records synth"
  std::string job;             // one line, a verb first: "makes Criteo-like data"
  std::string arguments = {};  // such as "FILE..."; empty: arguments are an error
  std::vector<FlagGroup> groups = {};
  // Each flag is either in `always` (it has an effect in every run of the command) or in one or
  // more rows of `needs`, which must all hold.
  std::vector<std::string> always = {};
  std::vector<Needs> needs = {};
  std::vector<std::string> examples = {};  // whole command lines
};

struct ParsedLine {
  enum class Action { kRun, kHelp, kManPage, kBashCompletion, kVersion };
  Action action = Action::kRun;
  Args args;
};

// Sets the gflags variables from `words` (the command line without program and subcommand). Accepts
// --flag=value, --flag value, --bool, --nobool, one dash or two, - for _, and -- as the end of the
// flags. Errors suggest what to write instead. `siblings` are the other subcommands: the error for
// one of their flags names the subcommand.
Result<ParsedLine> ParseLine(const CommandSpec& spec, std::span<const CommandSpec* const> siblings,
                             std::span<const std::string> words);

// Values that a program finds itself where a flag leaves them open: {"format", "vw"} for
// --format=auto. Of several values (training and test files may differ) one must suit.
using ResolvedValues = std::map<std::string, std::vector<std::string>>;

// An error for the first flag on the command line that has no effect (see CommandSpec::needs). It
// says what the flag belongs to and what was found. A flag that is set to its default of 0, false
// or nothing asks for nothing and is no error. A flag of `spec` that is neither in `always` nor in
// `needs` is a bug and ends the program.
Status CheckEffects(const CommandSpec& spec, const ResolvedValues& resolved = {});

// Whether the command line has the flag.
bool IsGiven(const std::string& flag);

// The value of a flag as a user writes it: numbers in their shortest form, and without the queries
// of URLs, which may hold secrets.
std::string ValueText(const google::CommandLineFlagInfo& info);

// Names and values of all flags of `spec`, in the order of the help text.
std::vector<std::pair<std::string, std::string>> FlagValues(const CommandSpec& spec);

// The candidate with the smallest edit distance to `word`, or "" if none is similar.
std::string Nearest(std::string_view word, std::span<const std::string> candidates);

constexpr int kExitFailure = 1;        // the work failed
constexpr int kExitUsage = 2;          // the command line is invalid
constexpr int kExitInterrupted = 130;  // stopped by Ctrl-C or SIGTERM

// A message for the user: control characters are escaped, and flags replace the options that the
// library names.
std::string MessageText(std::string_view message);

// --max_record_mb in bytes.
Result<uint64_t> MaxRecordBytes(uint64_t max_record_mb);
// The number of --positive_label; none for an empty text.
Result<std::optional<float>> PositiveLabel(const std::string& text);

// Prints "program: message" on standard error. Returns the exit status: kExitUsage for
// Code::kInvalid, kExitInterrupted for Code::kCancelled after a signal (a job that another process
// cancels has no signal), else kExitFailure.
int Fail(std::string_view program, const Status& status);

// The flags of a command with their gflags definitions, for the parser and the help texts.

// The names of all flags, in the order of the help text.
std::vector<std::string> AllFlags(const CommandSpec& spec);

// `flag` must be defined.
google::CommandLineFlagInfo InfoOf(const std::string& flag);

// The default is any text.
ValueKind KindOf(const CommandSpec& spec, const std::string& flag);

bool IsBool(const google::CommandLineFlagInfo& info);

// The form in help texts: "--[no]resume", "--rows=N", "--train=FILE".
std::string FlagForm(const CommandSpec& spec, const std::string& flag);

// The description and the default.
std::string FlagDescription(const std::string& flag);

}  // namespace millrace::tools
