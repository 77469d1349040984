// SPDX-License-Identifier: Apache-2.0
#include "tools/common/help.h"

#include <gflags/gflags.h>
#include <gtest/gtest.h>

DEFINE_uint64(help_rows, 7, "rows to make");
DEFINE_double(help_rate, 0.444, "a rate");
DEFINE_bool(help_values, true, "whether values are written");
DEFINE_string(help_out, "", "where to write");
DEFINE_string(help_rule, "slow", "slow or fast");

namespace millrace::tools {
namespace {

const CommandSpec kMake = {
    .name = "prog make",
    .job = "makes things",
    .arguments = "FILE...",
    .groups = {{"Files", {"help_out", "help_values"}, {{"help_out", Folder()}}},
               {"Size",
                {"help_rows", "help_rate", "help_rule"},
                {{"help_rule", OneOf({"slow", "fast"})}}}},
    .examples = {"prog make --help_out='x y' a\\b"}};
const CommandSpec kShow = {.name = "prog show", .job = "shows things"};
const ProgramSpec kProgram = {
    .name = "prog", .job = "makes and shows things", .commands = {&kMake, &kShow}};

TEST(Help, CommandShowsOnlyItsFlags) {
  EXPECT_EQ(HelpText(kMake),
            "prog make: makes things\n"
            "\n"
            "usage: prog make [flags] FILE...\n"
            "\n"
            "Files:\n"
            "  --help_out=DIR     where to write\n"
            "  --[no]help_values  whether values are written (default true)\n"
            "\n"
            "Size:\n"
            "  --help_rows=N      rows to make (default 7)\n"
            "  --help_rate=X      a rate (default 0.444)\n"
            "  --help_rule=NAME   slow or fast (default slow)\n"
            "\n"
            "Examples:\n"
            "  prog make --help_out='x y' a\\b\n"
            "\n"
            "--version prints the version, --help=man a man page, --help=bash a completion "
            "script.\n");
}

TEST(Help, ProgramShowsItsCommands) {
  EXPECT_NE(
      HelpText(kProgram).find("Commands:\n  make      makes things\n  show      shows things"),
      std::string::npos);
  EXPECT_NE(HelpText(kProgram).find("\nExamples:\n  prog make --help_out='x y' a\\b\n"),
            std::string::npos);
}

// Unescaped dashes would become hyphens, which a shell does not accept, and backslashes would
// disappear.
TEST(Help, ManPageKeepsDashesAndBackslashes) {
  const std::string page = ManPage(kProgram);
  EXPECT_NE(page.find(".SH NAME\nprog \\- makes and shows things\n"), std::string::npos) << page;
  EXPECT_NE(page.find(".TP\n.B \\-\\-help_rule=NAME\nslow or fast (default slow)\n"),
            std::string::npos)
      << page;
  EXPECT_NE(page.find("\nprog make \\-\\-help_out='x y' a\\eb\n"), std::string::npos) << page;
}

TEST(Help, CompletionHasCommandsFlagsAndWords) {
  const std::string script = BashCompletion(kProgram);
  EXPECT_NE(script.find("make show --help --version"), std::string::npos) << script;
  EXPECT_NE(script.find("--help_out= --help_values --nohelp_values --help_rows="),
            std::string::npos)
      << script;
  EXPECT_NE(script.find("__help_rule) kind=words words='slow fast' ;;"), std::string::npos)
      << script;
}

}  // namespace
}  // namespace millrace::tools
