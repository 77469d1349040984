// SPDX-License-Identifier: Apache-2.0
#include "tools/common/help.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "tools/common/flags.h"

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

constexpr char kExitStatus[] =
    ".SH EXIT STATUS\n"
    ".TP\n.B 0\nSuccess.\n"
    ".TP\n.B 1\nFailure; standard error has the reason.\n"
    ".TP\n.B 2\nInvalid command line; standard error suggests what to write instead.\n"
    ".TP\n.B 130\nStopped by Ctrl-C or SIGTERM.\n";

// Escapes the characters that troff interprets: a backslash, a dash (which becomes a hyphen), and a
// dot or a quote at the start of a line.
std::string Escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

std::string Synopsis(const CommandSpec& command) {
  std::string text = ".B " + Escaped(command.name) + "\n";
  if (!command.groups.empty()) text += "[\\fIflags\\fR]\n";
  if (!command.arguments.empty()) text += "\\fI" + Escaped(command.arguments) + "\\fR\n";
  return text;
}

std::string Flags(const CommandSpec& command) {
  std::string text;
  for (const FlagGroup& group : command.groups) {
    text += ".SS " + Escaped(group.title) + "\n";
    for (const std::string& flag : group.flags) {
      text += ".TP\n.B " + Escaped(FlagForm(command, flag)) + "\n" +
              Escaped(FlagDescription(flag)) + "\n";
    }
  }
  return text;
}

std::string Section(const ProgramSpec& program, const CommandSpec& command) {
  const std::string subcommand = SubcommandName(program, command);
  if (subcommand.empty()) return ".SH OPTIONS\n" + Flags(command);
  return ".SH \"COMMAND " + Escaped(subcommand) + "\"\n" + Escaped(command.name) + ": " +
         Escaped(command.job) + ".\n" + Flags(command);
}

std::string Examples(const ProgramSpec& program) {
  std::string text = ".SH EXAMPLES\n";
  for (const CommandSpec* command : program.commands) {
    for (const std::string& example : command->examples) {
      text += ".nf\n" + Escaped(example) + "\n.fi\n.sp\n";
    }
  }
  return text;
}

// Bash splits words at "=", so a value is the word after "=" or the word after the flag.
constexpr char kHead[] = R"bash(() {
  local cur=${COMP_WORDS[COMP_CWORD]} flag='' command='' flags='' words='' kind='' i
  COMPREPLY=()
)bash";

constexpr char kFindFlag[] = R"bash(  if [[ $cur == = ]]; then
    flag=${COMP_WORDS[COMP_CWORD-1]} cur=''
  elif ((COMP_CWORD > 1)) && [[ ${COMP_WORDS[COMP_CWORD-1]} == = ]]; then
    flag=${COMP_WORDS[COMP_CWORD-2]}
  elif [[ $cur == --*=* ]]; then
    flag=${cur%%=*} cur=${cur#*=}
  elif ((COMP_CWORD > 1)) && [[ $cur != -* ]]; then
    flag=${COMP_WORDS[COMP_CWORD-1]}
  fi
  flag=${flag//-/_}
)bash";

constexpr char kTail[] = R"bash(  if [[ -z $kind && $cur == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$cur")
    [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace 2>/dev/null
  elif [[ $kind == words ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
  elif [[ $kind == folder ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -d -- "$cur")
  elif [[ $kind != text ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
  fi
  return 0
}
)bash";

// millrace-launch: the words after -- are another command line.
constexpr char kCommandAfterDashes[] = R"bash(  for ((i = 1; i < COMP_CWORD; i++)); do
    [[ ${COMP_WORDS[i]} == -- ]] || continue
    if declare -F _command_offset >/dev/null; then
      _command_offset $((i + 1))
    elif ((COMP_CWORD == i + 1)); then
      mapfile -t COMPREPLY < <(compgen -c -- "$cur")
    else
      mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    fi
    return 0
  done
)bash";

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// The flags as typed: --rows= and --resume --noresume.
std::string TypedFlags(const CommandSpec& command) {
  std::vector<std::string> typed = {"--help", "--version"};
  for (const std::string& flag : AllFlags(command)) {
    if (IsBool(InfoOf(flag))) {
      typed.push_back("--" + flag);
      typed.push_back("--no" + flag);
    } else {
      typed.push_back("--" + flag + "=");
    }
  }
  return Joined(typed);
}

// One arm of the case statement over the flags, which completes the value of a flag.
std::string ValueArm(const CommandSpec& command, const std::string& flag) {
  const std::string head = "        __" + flag + ") kind=";
  const ValueKind kind = KindOf(command, flag);
  switch (kind.form) {
    case ValueKind::Form::kWord:
      return head + "words words='" + Joined(kind.words) + "' ;;\n";
    case ValueKind::Form::kFile:
      return head + "file ;;\n";
    case ValueKind::Form::kFolder:
      return head + "folder ;;\n";
    case ValueKind::Form::kText:
      return head + "text ;;\n";
  }
  return "";
}

std::string CommandArm(const ProgramSpec& program, const CommandSpec& command) {
  const std::string name = SubcommandName(program, command);
  std::string text = "    " + (name.empty() ? "''" : name) + ")\n      flags='" +
                     TypedFlags(command) + "'\n      case $flag in\n";
  for (const std::string& flag : AllFlags(command)) {
    if (!IsBool(InfoOf(flag))) text += ValueArm(command, flag);
  }
  return text + "      esac ;;\n";
}

// Completes the first word of a program with subcommands.
std::string SubcommandChoice(const ProgramSpec& program) {
  std::vector<std::string> names;
  for (const CommandSpec* command : program.commands)
    names.push_back(SubcommandName(program, *command));
  names.insert(names.end(), {"--help", "--version"});
  return "  if ((COMP_CWORD == 1)); then\n    mapfile -t COMPREPLY < <(compgen -W '" +
         Joined(names) + "' -- \"$cur\")\n    return 0\n  fi\n  command=${COMP_WORDS[1]}\n";
}

// A program that has a command of its own name and subcommands: the first word tells.
std::string SubcommandOf(const ProgramSpec& program) {
  std::string text;
  for (const CommandSpec* command : program.commands) {
    const std::string name = SubcommandName(program, *command);
    if (!name.empty())
      text += "  [[ ${COMP_WORDS[1]-} == " + name + " ]] && command=" + name + "\n";
  }
  return text;
}

bool HasSubcommands(const ProgramSpec& program) {
  return program.commands[0]->name != program.name;
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

std::string ManPage(const ProgramSpec& program) {
  std::string text = ".TH " + Escaped(program.name) +
                     " 1 \"\" \"Millrace " MILLRACE_VERSION "\" \"Millrace\"\n.SH NAME\n" +
                     Escaped(program.name) + " \\- " + Escaped(program.job) + "\n.SH SYNOPSIS\n";
  for (size_t i = 0; i < program.commands.size(); ++i) {
    text += (i > 0 ? ".br\n" : "") + Synopsis(*program.commands[i]);
  }
  text +=
      ".SH DESCRIPTION\n"
      "A flag is written \\fB\\-\\-flag=value\\fR or \\fB\\-\\-flag value\\fR, "
      "with _ or \\- between its words; a boolean flag is written \\fB\\-\\-flag\\fR or "
      "\\fB\\-\\-noflag\\fR. "
      "\\fB\\-\\-help\\fR lists the flags, \\fB\\-\\-version\\fR prints the version, "
      "\\fB\\-\\-help=man\\fR this page, \\fB\\-\\-help=bash\\fR a completion script.\n";
  for (const CommandSpec* command : program.commands) text += Section(program, *command);
  return text + Examples(program) + kExitStatus;
}

std::string BashCompletion(const ProgramSpec& program) {
  std::string function = "_" + program.name;
  std::replace(function.begin(), function.end(), '-', '_');
  std::string text =
      "# bash completion, generated by " + program.name + " --help=bash\n" + function + kHead;
  text += HasSubcommands(program) ? SubcommandChoice(program) : SubcommandOf(program);
  if (program.commands[0]->arguments.starts_with("--")) text += kCommandAfterDashes;
  text += kFindFlag;
  text += "  case $command in\n";
  for (const CommandSpec* command : program.commands) text += CommandArm(program, *command);
  return text + "  esac\n" + kTail + "complete -F " + function + " " + program.name + "\n";
}

}  // namespace millrace::tools
