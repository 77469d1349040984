#include "tools/predict/run_flags.h"

#include <gflags/gflags.h>

#include <filesystem>
#include <utility>

#include "trainer/run/run_folder.h"
#include "trainer/run/run_info.h"

namespace millrace::tools {
namespace {

using Flags = std::vector<std::pair<std::string, std::string>>;

Flags NotGiven(const std::vector<std::string>& names) {
  Flags flags;
  for (const std::string& name : names) {
    const gflags::CommandLineFlagInfo info = gflags::GetCommandLineFlagInfoOrDie(name.c_str());
    if (info.is_default) flags.emplace_back(name, info.current_value);
  }
  return flags;
}

bool SaysNothing(const std::string& value) {
  return value.empty() || value == "0" || value == "auto" || value == "false";
}

}  // namespace

std::string TakeRunFlags(const std::string& model, const std::vector<std::string>& names) {
  const Result<std::string> file = trainer::ModelFileOf(model);
  if (!file.ok()) return "";
  // RUN/model/model.bin, RUN/checkpoints/...
  std::error_code ignored;
  const std::filesystem::path run =
      std::filesystem::absolute(*file, ignored).parent_path().parent_path();
  std::string taken;
  for (const trainer::FlagChange& flag :
       trainer::ChangedFlags(trainer::ReadRunJson(run), NotGiven(names))) {
    if (SaysNothing(flag.before)) continue;
    gflags::SetCommandLineOption(flag.name.c_str(), flag.before.c_str());
    taken += "--" + flag.name + "=" + flag.before + " ";
  }
  return taken.empty() ? "" : taken + "(" + (run / "run.json").string() + ")";
}

}  // namespace millrace::tools
