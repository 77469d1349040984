// SPDX-License-Identifier: Apache-2.0
// millrace-records: makes, converts and inspects TFRecord files and feature specs.

#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "tools/common/help.h"
#include "tools/common/program.h"
#include "tools/common/remote_flags.h"
#include "tools/records/commands.h"

namespace millrace::records {
namespace {

using tools::Answer;
using tools::Args;
using tools::CommandSpec;
using tools::HelpText;
using tools::kExitUsage;
using tools::Nearest;
using tools::ParsedLine;
using tools::ParseLine;
using tools::ProgramSpec;

constexpr char kProgram[] = "millrace-records";

struct Command {
  std::string name;
  const CommandSpec& spec;
  int (*run)(const Args&);
};

std::vector<Command> Commands() {
  return {{"synth", SynthSpec(), RunSynth},   {"convert", ConvertSpec(), RunConvert},
          {"infer", InferSpec(), RunInfer},   {"fit", FitSpec(), RunFit},
          {"cat", CatSpec(), RunCat},         {"stat", StatSpec(), RunStat},
          {"verify", VerifySpec(), RunVerify}};
}

ProgramSpec Program(const std::vector<Command>& commands) {
  ProgramSpec program = {
      .name = kProgram, .job = "makes, converts and inspects TFRecord files", .commands = {}};
  for (const Command& command : commands) program.commands.push_back(&command.spec);
  return program;
}

int UnknownCommand(const std::vector<Command>& commands, const std::string& word) {
  std::vector<std::string> names;
  for (const Command& command : commands) names.push_back(command.name);
  const std::string nearest = Nearest(word, names);
  const std::string hint =
      nearest.empty() ? "see millrace-records --help" : "did you mean " + nearest + "?";
  return Fail(Invalid("unknown command '" + word + "'; " + hint));
}

int RunCommand(const ProgramSpec& program, const Command& command,
               const std::vector<std::string>& words) {
  const Result<ParsedLine> line = ParseLine(command.spec, program.commands, words);
  if (!line.ok()) return Fail(line.status());
  if (const auto status = Answer(program, &command.spec, line->action)) return *status;
  tools::UseRemoteFlags(kProgram);
  return command.run(line->args);
}

// A line that begins with a flag: --help or --version, or a mistake.
int RunWithoutCommand(const ProgramSpec& program, const std::vector<std::string>& words) {
  const CommandSpec spec = {.name = kProgram, .job = program.job, .arguments = "COMMAND"};
  const Result<ParsedLine> line = ParseLine(spec, program.commands, words);
  if (!line.ok()) return Fail(line.status());
  if (const auto status = Answer(program, nullptr, line->action)) return *status;
  return Fail(Invalid("the command must come first; see millrace-records --help"));
}

int Main(const std::vector<std::string>& words) {
  const std::vector<Command> commands = Commands();
  const ProgramSpec program = Program(commands);
  if (words.empty()) {
    std::fputs(HelpText(program).c_str(), stderr);
    return kExitUsage;
  }
  if (words[0] == "help") return *Answer(program, nullptr, ParsedLine::Action::kHelp);
  if (words[0].starts_with("-")) return RunWithoutCommand(program, words);
  for (const Command& command : commands) {
    if (command.name == words[0])
      return RunCommand(program, command, {words.begin() + 1, words.end()});
  }
  return UnknownCommand(commands, words[0]);
}

}  // namespace
}  // namespace millrace::records

int main(int argc, char** argv) {
  // A closed pipe ("cat | head") ends the program without a message, even if the parent process
  // ignores the signal.
  std::signal(SIGPIPE, SIG_DFL);
  return millrace::tools::ProgramMain(millrace::records::kProgram, millrace::records::Main, argc,
                                      argv);
}
