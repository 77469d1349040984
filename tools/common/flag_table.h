// The flags of a command with their gflags definitions, for the parser and the help texts.
#pragma once

#include <gflags/gflags.h>

#include <string>
#include <vector>

#include "tools/common/flags.h"

namespace millrace::tools {

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
