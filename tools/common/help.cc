#include "tools/common/help.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "tools/common/flag_table.h"

namespace millrace::tools {
namespace {

constexpr size_t kLineWidth = 100;
constexpr char kMore[] =
    "\n--version prints the version, --help=man a man page, --help=bash a completion script.\n";

// Breaks `text` at spaces. All lines but the first are indented.
std::string Wrapped(std::string_view text, size_t indent) {
  std::string out;
  size_t column = indent;
  while (!text.empty()) {
    const size_t word_end = std::min(text.find(' '), text.size());
    if (column > indent && column + 1 + word_end > kLineWidth) {
      out += '\n';
      out.append(indent, ' ');
      column = indent;
    }
    if (column > indent) out += ' ', ++column;
    out += text.substr(0, word_end);
    column += word_end;
    text.remove_prefix(std::min(word_end + 1, text.size()));
  }
  return out;
}

std::string GroupText(const CommandSpec& spec, const FlagGroup& group, size_t indent) {
  std::string text = "\n" + group.title + ":\n";
  for (const std::string& flag : group.flags) {
    std::string left = "  " + FlagForm(spec, flag);
    left.resize(std::max(indent, left.size() + 2), ' ');
    text += left + Wrapped(FlagDescription(flag), indent) + "\n";
  }
  return text;
}

// The column of the descriptions, to the right of the longest flag.
size_t DescriptionColumn(const CommandSpec& spec) {
  size_t longest = 0;
  for (const std::string& flag : AllFlags(spec))
    longest = std::max(longest, FlagForm(spec, flag).size());
  return longest + 4;
}

// Standard output can be a full disk or closed.
int Print(const std::string& program, const std::string& text) {
  if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return 0;
  return Fail(program, IoError("cannot write standard output", errno));
}

}  // namespace

ProgramSpec ProgramOf(const CommandSpec& spec) {
  return {.name = spec.name, .job = spec.job, .commands = {&spec}};
}

std::string SubcommandName(const ProgramSpec& program, const CommandSpec& command) {
  return command.name == program.name ? "" : command.name.substr(program.name.size() + 1);
}

std::string HelpText(const CommandSpec& spec) {
  std::string text = spec.name + ": " + spec.job + "\n\nusage: " + spec.name;
  if (!spec.groups.empty()) text += " [flags]";
  if (!spec.arguments.empty()) text += " " + spec.arguments;
  text += "\n";
  const size_t indent = DescriptionColumn(spec);
  for (const FlagGroup& group : spec.groups) text += GroupText(spec, group, indent);
  if (!spec.examples.empty()) text += "\nExamples:\n";
  for (const std::string& example : spec.examples) text += "  " + example + "\n";
  return text + kMore;
}

std::string HelpText(const ProgramSpec& program) {
  std::string text = program.name + ": " + program.job + "\n\nusage: " + program.name +
                     " COMMAND [flags] [arguments]\n\nCommands:\n";
  for (const CommandSpec* command : program.commands) {
    std::string name = "  " + SubcommandName(program, *command);
    name.resize(12, ' ');
    text += name + command->job + "\n";
  }
  text += "\nExamples:\n";
  for (const CommandSpec* command : program.commands) {
    if (!command->examples.empty()) text += "  " + command->examples[0] + "\n";
  }
  return text + "\n" + program.name + " COMMAND --help shows the flags of a command.\n" + kMore;
}

std::optional<int> Answer(const ProgramSpec& program, const CommandSpec* command,
                          ParsedLine::Action action) {
  switch (action) {
    case ParsedLine::Action::kRun:
      return std::nullopt;
    case ParsedLine::Action::kHelp:
      return Print(program.name, command ? HelpText(*command) : HelpText(program));
    case ParsedLine::Action::kManPage:
      return Print(program.name, ManPage(program));
    case ParsedLine::Action::kBashCompletion:
      return Print(program.name, BashCompletion(program));
    case ParsedLine::Action::kVersion:
      return Print(program.name, program.name + " " MILLRACE_VERSION "\n");
  }
  return std::nullopt;
}

std::optional<int> Answer(const CommandSpec& spec, ParsedLine::Action action) {
  return Answer(ProgramOf(spec), &spec, action);
}

}  // namespace millrace::tools
