#include "tools/common/flag_table.h"
#include "tools/common/help.h"

namespace millrace::tools {
namespace {

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

}  // namespace

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

}  // namespace millrace::tools
