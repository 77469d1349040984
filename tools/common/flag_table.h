// A command's flags with what gflags knows of them: for the parser and for the texts about flags.
#pragma once

#include <gflags/gflags.h>

#include <string>
#include <vector>

#include "tools/common/flags.h"

namespace millrace::tools {

// Names, in the order of the help text.
std::vector<std::string> AllFlags(const CommandSpec& spec);

// A spec may only name flags that are defined.
google::CommandLineFlagInfo InfoOf(const std::string& flag);

// Any text, if the spec does not say more.
ValueKind KindOf(const CommandSpec& spec, const std::string& flag);

bool IsBool(const google::CommandLineFlagInfo& info);

// As help texts show it: "--[no]resume", "--rows=N", "--train=FILE".
std::string FlagForm(const CommandSpec& spec, const std::string& flag);

// The description and the default.
std::string FlagDescription(const std::string& flag);

}  // namespace millrace::tools
