// millrace-records: makes, converts and inspects TFRecord files.

#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "tools/common/flags.h"
#include "tools/records/commands.h"

namespace millrace::tools {
namespace {

constexpr char kProgram[] = "millrace-records";

struct Command {
  std::string name;
  const CommandSpec& spec;
  int (*run)(const Args&);
};

std::vector<Command> Commands() {
  return {{"synth", SynthSpec(), RunSynth},
          {"convert", ConvertSpec(), RunConvert},
          {"cat", CatSpec(), RunCat},
          {"stat", StatSpec(), RunStat},
          {"verify", VerifySpec(), RunVerify}};
}

std::string ProgramHelp(const std::vector<Command>& commands) {
  std::string text = std::string(kProgram) +
                     ": makes, converts and inspects TFRecord files\n\nusage: " + kProgram +
                     " COMMAND [flags] [arguments]\n\nCommands:\n";
  for (const Command& command : commands) {
    std::string name = "  " + command.name;
    name.resize(12, ' ');
    text += name + command.spec.job + "\n";
  }
  return text + "\n" + kProgram + " COMMAND --help tells more; --version prints the version.\n";
}

int Print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return 0;
}

int UnknownCommand(const std::vector<Command>& commands, const std::string& word) {
  std::vector<std::string> names;
  for (const Command& command : commands) names.push_back(command.name);
  const std::string nearest = Nearest(word, names);
  const std::string hint =
      nearest.empty() ? "see millrace-records --help" : "did you mean " + nearest + "?";
  return Fail(io::Invalid("unknown command '" + word + "'; " + hint));
}

int RunCommand(const std::vector<Command>& commands, const Command& command,
               const std::vector<std::string>& words) {
  std::vector<const CommandSpec*> siblings;
  for (const Command& other : commands) siblings.push_back(&other.spec);
  const io::Result<ParsedLine> line = ParseLine(command.spec, siblings, words);
  if (!line.ok()) return Fail(line.status());
  switch (line->action) {
    case ParsedLine::Action::kHelp:
      return Print(HelpText(command.spec));
    case ParsedLine::Action::kVersion:
      return Print(VersionText(kProgram));
    case ParsedLine::Action::kRun:
      break;
  }
  return command.run(line->args);
}

int Main(const std::vector<std::string>& words) {
  const std::vector<Command> commands = Commands();
  if (words.empty()) {
    std::fputs(ProgramHelp(commands).c_str(), stderr);
    return kExitUsage;
  }
  const std::string& first = words[0];
  if (first == "--help" || first == "-help" || first == "-h" || first == "help")
    return Print(ProgramHelp(commands));
  if (first == "--version" || first == "-version") return Print(VersionText(kProgram));
  for (const Command& command : commands) {
    if (command.name == first)
      return RunCommand(commands, command, {words.begin() + 1, words.end()});
  }
  return UnknownCommand(commands, first);
}

}  // namespace
}  // namespace millrace::tools

int main(int argc, char** argv) {
  // A reader that has seen enough ("cat | head") ends us without a word, even if our parent ignores
  // the signal.
  std::signal(SIGPIPE, SIG_DFL);
  return millrace::tools::Main({argv + 1, argv + argc});
}
