#include <algorithm>

#include "tools/common/flag_table.h"
#include "tools/common/help.h"

namespace millrace::tools {
namespace {

// Bash splits words at "=", so a value is the word behind "=" or the word behind the flag.
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

// millrace-launch: what is behind -- is a command line of its own.
constexpr char kCommandBehindDashes[] = R"bash(  for ((i = 1; i < COMP_CWORD; i++)); do
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

// --rows= and --resume --noresume, as they are typed.
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

// An arm of the case that looks at a flag whose value is completed.
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

// The first word of a program with subcommands.
std::string SubcommandChoice(const ProgramSpec& program) {
  std::vector<std::string> names;
  for (const CommandSpec* command : program.commands)
    names.push_back(SubcommandName(program, *command));
  names.insert(names.end(), {"--help", "--version"});
  return "  if ((COMP_CWORD == 1)); then\n    mapfile -t COMPREPLY < <(compgen -W '" +
         Joined(names) + "' -- \"$cur\")\n    return 0\n  fi\n  command=${COMP_WORDS[1]}\n";
}

bool HasSubcommands(const ProgramSpec& program) {
  return program.commands[0]->name != program.name;
}

}  // namespace

std::string BashCompletion(const ProgramSpec& program) {
  std::string function = "_" + program.name;
  std::replace(function.begin(), function.end(), '-', '_');
  std::string text =
      "# bash completion, made by " + program.name + " --help=bash\n" + function + kHead;
  if (HasSubcommands(program)) text += SubcommandChoice(program);
  if (program.commands[0]->arguments.starts_with("--")) text += kCommandBehindDashes;
  text += kFindFlag;
  text += "  case $command in\n";
  for (const CommandSpec* command : program.commands) text += CommandArm(program, *command);
  return text + "  esac\n" + kTail + "complete -F " + function + " " + program.name + "\n";
}

}  // namespace millrace::tools
