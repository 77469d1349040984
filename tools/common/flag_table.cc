#include "tools/common/flag_table.h"

#include <cstdio>
#include <cstdlib>

namespace millrace::tools {
namespace {

const char* Placeholder(const google::CommandLineFlagInfo& info, ValueKind::Form form) {
  if (info.type == "double") return "X";
  if (info.type != "string") return "N";
  switch (form) {
    case ValueKind::Form::kText:
      return "TEXT";
    case ValueKind::Form::kWord:
      return "NAME";
    case ValueKind::Form::kFile:
      return "FILE";
    case ValueKind::Form::kFolder:
      return "DIR";
  }
  return "TEXT";
}

// The default value of gflags has all 17 digits of a double.
std::string DefaultText(const google::CommandLineFlagInfo& info) {
  if (info.type != "double") return info.default_value;
  char text[32];
  std::snprintf(text, sizeof text, "%g", std::strtod(info.default_value.c_str(), nullptr));
  return text;
}

}  // namespace

std::vector<std::string> AllFlags(const CommandSpec& spec) {
  std::vector<std::string> all;
  for (const FlagGroup& group : spec.groups) {
    all.insert(all.end(), group.flags.begin(), group.flags.end());
  }
  return all;
}

google::CommandLineFlagInfo InfoOf(const std::string& flag) {
  google::CommandLineFlagInfo info;
  CHECK(google::GetCommandLineFlagInfo(flag.c_str(), &info));
  return info;
}

ValueKind KindOf(const CommandSpec& spec, const std::string& flag) {
  for (const FlagGroup& group : spec.groups) {
    const auto found = group.values.find(flag);
    if (found != group.values.end()) return found->second;
  }
  return {};
}

bool IsBool(const google::CommandLineFlagInfo& info) { return info.type == "bool"; }

std::string FlagForm(const CommandSpec& spec, const std::string& flag) {
  const google::CommandLineFlagInfo info = InfoOf(flag);
  if (IsBool(info)) return "--[no]" + flag;
  return "--" + flag + "=" + Placeholder(info, KindOf(spec, flag).form);
}

std::string FlagDescription(const std::string& flag) {
  const google::CommandLineFlagInfo info = InfoOf(flag);
  if (info.default_value.empty()) return info.description;
  return info.description + " (default " + DefaultText(info) + ")";
}

}  // namespace millrace::tools
