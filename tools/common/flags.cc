// SPDX-License-Identifier: Apache-2.0
#include "tools/common/flags.h"

#include <gflags/gflags.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <utility>

#include "io/base/printable.h"
#include "io/record/record_format.h"
#include "io/record/remote_files.h"
#include "io/state/state_fields.h"
#include "io/text/line_cursor.h"
#include "tools/common/program.h"

namespace millrace::tools {
namespace {

std::string Expected(const google::CommandLineFlagInfo& info) {
  if (IsBool(info)) return "true or false";
  if (info.type == "double") return "a number";
  if (info.type == "string") return "some text";
  if (info.type == "uint32" || info.type == "uint64") return "a whole number, 0 or more";
  return "a whole number";
}

bool HasFlag(const CommandSpec& spec, const std::string& flag) {
  const std::vector<std::string> all = AllFlags(spec);
  return std::find(all.begin(), all.end(), flag) != all.end();
}

// One word of the form --name or --name=value.
struct FlagWord {
  std::string name;  // with _ for -
  std::string value;
  bool has_value = false;
};

FlagWord Split(const std::string& word) {
  FlagWord split;
  const size_t begin = word.find_first_not_of('-');
  const size_t equals = word.find('=', begin);
  split.has_value = equals != std::string::npos;
  split.name = word.substr(begin, split.has_value ? equals - begin : equals);
  if (split.has_value) split.value = word.substr(equals + 1);
  std::replace(split.name.begin(), split.name.end(), '-', '_');
  return split;
}

bool LooksLikeFlag(const std::string& word) {
  if (word.size() < 2 || word[0] != '-') return false;
  const size_t name = word[1] == '-' ? 2 : 1;
  return name < word.size() && (std::isalpha(static_cast<unsigned char>(word[name])) != 0);
}

// --noname for a bool flag "name" of the command.
bool IsNegation(const CommandSpec& spec, const FlagWord& word) {
  if (word.has_value || word.name.rfind("no", 0) != 0) return false;
  const std::string positive = word.name.substr(2);
  return HasFlag(spec, positive) && IsBool(InfoOf(positive));
}

Status Unknown(const CommandSpec& spec, std::span<const CommandSpec* const> siblings,
               const std::string& name) {
  for (const CommandSpec* sibling : siblings) {
    if (!HasFlag(*sibling, name)) continue;
    return Invalid("flag --" + name + " belongs to " + sibling->name + ", not to " + spec.name);
  }
  const std::string nearest = Nearest(name, AllFlags(spec));
  const std::string hint =
      nearest.empty() ? "see " + spec.name + " --help" : "did you mean --" + nearest + "?";
  return Invalid("unknown flag --" + name + "; " + hint);
}

// "sgd, adagrad or ftrl"
std::string Listed(const std::vector<std::string>& words) {
  std::string text = words[0];
  for (size_t i = 1; i < words.size(); ++i) {
    text += (i + 1 < words.size() ? ", " : " or ") + words[i];
  }
  return text;
}

// A flag whose default is empty accepts an empty value.
bool IsAllowed(const std::vector<std::string>& words, const google::CommandLineFlagInfo& info,
               const std::string& value) {
  if (words.empty() || (value.empty() && info.default_value.empty())) return true;
  return std::find(words.begin(), words.end(), value) != words.end();
}

Status Set(const CommandSpec& spec, const std::string& name, const std::string& value) {
  const google::CommandLineFlagInfo info = InfoOf(name);
  const ValueKind kind = KindOf(spec, name);
  const std::vector<std::string>& words = kind.words;
  const bool is_folder = kind.form == ValueKind::Form::kFolder;
  const bool is_path = is_folder || kind.form == ValueKind::Form::kFile;
  if (is_path && !kind.may_be_remote && io::IsRemote(value)) {
    return Invalid("--" + name + "=" + io::HideQueries(value) + ": expected a local " +
                   (is_folder ? "folder" : "file") + ": only input files may be remote");
  }
  const bool allowed = IsAllowed(words, info, value);
  if (allowed && !google::SetCommandLineOption(name.c_str(), value.c_str()).empty()) return {};
  return Invalid("flag --" + name + " has the value '" + value + "'; expected " +
                 (allowed ? Expected(info) : Listed(words)));
}

class LineParser {
 public:
  LineParser(const CommandSpec& spec, std::span<const CommandSpec* const> siblings,
             std::span<const std::string> words)
      : spec_(spec), siblings_(siblings), words_(words) {}

  Result<ParsedLine> Parse() {
    while (next_ < words_.size() && line_.action == ParsedLine::Action::kRun) {
      const std::string& word = words_[next_++];
      if (word == "--") {
        line_.args.insert(line_.args.end(), words_.begin() + static_cast<ptrdiff_t>(next_),
                          words_.end());
        break;
      }
      if (LooksLikeFlag(word)) {
        RETURN_IF_ERROR(ParseFlag(Split(word)));
      } else {
        line_.args.push_back(word);
      }
    }
    RETURN_IF_ERROR(CheckArguments());
    return std::move(line_);
  }

 private:
  Status ParseFlag(FlagWord word) {
    if (word.name == "help" || word.name == "h") return ParseHelp(word);
    if (word.name == "version") return Stop(ParsedLine::Action::kVersion);
    if (!HasFlag(spec_, word.name)) {
      if (!IsNegation(spec_, word)) return Unknown(spec_, siblings_, word.name);
      return Set(spec_, word.name.substr(2), "false");
    }
    if (!word.has_value) RETURN_IF_ERROR(FindValue(word));
    return Set(spec_, word.name, word.value);
  }

  Status ParseHelp(const FlagWord& word) {
    if (!word.has_value) return Stop(ParsedLine::Action::kHelp);
    if (word.value == "man") return Stop(ParsedLine::Action::kManPage);
    if (word.value == "bash") return Stop(ParsedLine::Action::kBashCompletion);
    return Invalid("flag --help has the value '" + word.value +
                   "'; expected none, man (a man page) or bash (a completion script)");
  }

  Status Stop(ParsedLine::Action action) {
    line_.action = action;
    return {};
  }

  // The value of a flag without "=": true, or the next word.
  Status FindValue(FlagWord& word) {
    const google::CommandLineFlagInfo info = InfoOf(word.name);
    if (IsBool(info)) {
      word.value = "true";
      return {};
    }
    if (next_ == words_.size() || LooksLikeFlag(words_[next_]) || words_[next_] == "--") {
      return Invalid("flag --" + word.name + " needs a value: " + Expected(info));
    }
    word.value = words_[next_++];
    return {};
  }

  Status CheckArguments() const {
    if (line_.action != ParsedLine::Action::kRun || line_.args.empty() || !spec_.arguments.empty())
      return {};
    std::error_code ignored;
    const bool is_file = std::filesystem::exists(line_.args[0], ignored);
    return Invalid("unexpected argument '" + line_.args[0] + "': " + spec_.name +
                   " takes only flags" +
                   (is_file ? "; several files go into quotes, as in --flag='folder/*'" : ""));
  }

  const CommandSpec& spec_;
  std::span<const CommandSpec* const> siblings_;
  std::span<const std::string> words_;
  size_t next_ = 0;
  ParsedLine line_;
};

// The Levenshtein distance.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row[b.size()];
}

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

// gflags writes a double with 17 digits.
std::string ShortForm(const google::CommandLineFlagInfo& info, const std::string& value) {
  return info.type == "double" ? io::NumberText(std::strtod(value.c_str(), nullptr)) : value;
}

bool Contains(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool IsUnset(const std::string& value) { return Contains(Needs{}.except, value); }

// "--index_base", "--novw_hash_all"
std::string AsTyped(const google::CommandLineFlagInfo& info) {
  const bool negated = IsBool(info) && info.current_value == "false";
  return (negated ? "--no" : "--") + info.name;
}

// Checks one row of `needs` for one flag.
class EffectCheck {
 public:
  EffectCheck(const Needs& needs, const ResolvedValues& resolved)
      : needs_(needs), resolved_(resolved) {}

  bool Holds() const {
    return std::any_of(needs_.with.begin(), needs_.with.end(), [&](const std::string& flag) {
      const std::vector<std::string> values = ValuesOf(flag);
      return std::any_of(values.begin(), values.end(), [&](const std::string& value) {
        return needs_.values.empty() ? !Contains(needs_.except, value)
                                     : Contains(needs_.values, value);
      });
    });
  }

  Status Error(const std::string& flag) const {
    const std::string start = AsTyped(InfoOf(flag)) + " has no effect";
    if (needs_.text.empty() && needs_.values.empty()) return Invalid(start + " without " + Flags());
    if (needs_.text.empty() && std::all_of(needs_.values.begin(), needs_.values.end(), IsUnset)) {
      return Invalid(start + " with " + Found());
    }
    return Invalid(start + ": it belongs to " + (needs_.text.empty() ? Values() : needs_.text) +
                   ", found " + Found());
  }

 private:
  std::vector<std::string> ValuesOf(const std::string& flag) const {
    const auto found = resolved_.find(flag);
    if (found == resolved_.end()) return {ValueText(InfoOf(flag))};
    return found->second;
  }
  // "--run_dir or --model_out"
  std::string Flags() const {
    std::vector<std::string> flags;
    for (const std::string& flag : needs_.with) flags.push_back("--" + flag);
    return Listed(flags);
  }
  // "--optimizer=sgd or adam"
  std::string Values() const { return "--" + needs_.with[0] + "=" + Listed(needs_.values); }
  // "--format=auto, which is vw"
  std::string Found() const {
    const google::CommandLineFlagInfo info = InfoOf(needs_.with[0]);
    const std::string given = ValueText(info), value = Listed(ValuesOf(info.name));
    if (IsUnset(value)) return "no --" + info.name;
    if (IsBool(info)) return "--" + info.name;
    if (given == value) return "--" + info.name + "=" + value;
    return "--" + info.name + "=" + (given.empty() ? "" : given + ", which is ") + value;
  }

  const Needs& needs_;
  const ResolvedValues& resolved_;
};

// Each flag is in `always` or in `needs`, and these name no other flags.
void CheckClassified(const CommandSpec& spec) {
  const std::vector<std::string> all = AllFlags(spec);
  std::vector<std::string> classified = spec.always, named = spec.always;
  for (const Needs& needs : spec.needs) {
    classified.insert(classified.end(), needs.flags.begin(), needs.flags.end());
    named.insert(named.end(), needs.flags.begin(), needs.flags.end());
    named.insert(named.end(), needs.with.begin(), needs.with.end());
  }
  const auto check = [&](const std::vector<std::string>& flags,
                         const std::vector<std::string>& expected, const char* problem) {
    for (const std::string& flag : flags) {
      const bool good = Contains(expected, flag);
      if (!good) std::fprintf(stderr, "%s: --%s %s\n", spec.name.c_str(), flag.c_str(), problem);
      CHECK(good);
    }
  };
  check(all, classified, "is neither in `always` nor in `needs` of its CommandSpec");
  check(named, all, "is in `always` or `needs` of the CommandSpec, but not in its groups");
}

}  // namespace

std::string ValueText(const google::CommandLineFlagInfo& info) {
  return io::HideQueries(ShortForm(info, info.current_value));
}

bool IsGiven(const std::string& flag) { return !InfoOf(flag).is_default; }

Status CheckEffects(const CommandSpec& spec, const ResolvedValues& resolved) {
  CheckClassified(spec);
  for (const std::string& flag : AllFlags(spec)) {
    const google::CommandLineFlagInfo info = InfoOf(flag);
    if (info.is_default) continue;
    if (info.current_value == info.default_value && IsUnset(ValueText(info))) continue;
    for (const Needs& needs : spec.needs) {
      if (!Contains(needs.flags, flag)) continue;
      const EffectCheck check(needs, resolved);
      if (!check.Holds()) return check.Error(flag);
    }
  }
  return {};
}

Result<ParsedLine> ParseLine(const CommandSpec& spec, std::span<const CommandSpec* const> siblings,
                             std::span<const std::string> words) {
  return LineParser(spec, siblings, words).Parse();
}

std::vector<std::pair<std::string, std::string>> FlagValues(const CommandSpec& spec) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const std::string& name : AllFlags(spec)) {
    values.emplace_back(name, ValueText(InfoOf(name)));
  }
  return values;
}

std::string Nearest(std::string_view word, std::span<const std::string> candidates) {
  std::string nearest;
  size_t least = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = EditDistance(word, candidate);
    if (distance >= least || distance >= candidate.size()) continue;
    least = distance;
    nearest = candidate;
  }
  return nearest;
}

std::string MessageText(std::string_view message) {
  constexpr std::string_view kOption = "max_record_bytes", kFlag = "max_record_mb";
  std::string text = PrintableLines(message);
  gflags::CommandLineFlagInfo ignored;
  if (!gflags::GetCommandLineFlagInfo(kFlag.data(), &ignored)) return text;
  const size_t at = text.find(kOption);
  return at == text.npos ? text : text.replace(at, kOption.size(), "--" + std::string(kFlag));
}

Result<uint64_t> MaxRecordBytes(uint64_t max_record_mb) {
  constexpr uint64_t kMax = io::kMaxRecordBytes >> 20;
  if (max_record_mb >= 1 && max_record_mb <= kMax) return max_record_mb << 20;
  return Invalid("--max_record_mb=" + std::to_string(max_record_mb) + ": expected 1 to " +
                 std::to_string(kMax));
}

Result<std::optional<float>> PositiveLabel(const std::string& text) {
  if (text.empty()) return std::optional<float>();
  const char* const end = text.data() + text.size();
  float label = 0;
  if (io::ParseFloat(text.data(), end, label) == end) return std::optional(label);
  return Invalid("--positive_label=" + text + ": expected a number");
}

int Fail(std::string_view program, const Status& status) {
  std::fflush(stdout);
  // Messages quote file names and the content of files.
  std::fprintf(stderr, "%.*s: %s\n", static_cast<int>(program.size()), program.data(),
               MessageText(status.message()).c_str());
  if (status.code() == Code::kCancelled && Interrupted()) return kExitInterrupted;
  return status.code() == Code::kInvalid ? kExitUsage : kExitFailure;
}

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
  return info.description + " (default " + ShortForm(info, info.default_value) + ")";
}

}  // namespace millrace::tools
