// SPDX-License-Identifier: Apache-2.0
#include "tools/common/run_record.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iterator>

#include "io/base/json.h"
#include "io/base/printable.h"
#include "tools/common/flags.h"
#include "tools/common/program.h"
#include "trainer/run/host_info.h"

namespace millrace::tools {
namespace {

// The profiler returns errors as text, empty for success.
Status FromText(const std::string& error) {
  return error.empty() ? Status() : Status(Code::kIo, error);
}

// Flags that do not affect the model. A run may be resumed with other values of them.
bool MayChange(const std::string& flag) {
  constexpr std::string_view kFree[] = {
      "run_dir",           "overwrite",     "resume",      "rejoin",
      "threads",           "input_threads", "profile",     "sample_ms",
      "dashboard",         "cache",         "ps_hosts",    "checkpoint_every",
      "worker_hosts",      "job_name",      "task_index",  "tls_cert",
      "tls_key",           "profile_steps", "tls_ca",      "token_file",
      "reconnect_seconds", "save_state",    "s3_endpoint", "s3_region",
      "s3_path_style",     "ca_file"};
  return std::find(std::begin(kFree), std::end(kFree), flag) != std::end(kFree);
}

// A value of 0, false, auto or nothing that is the default stands for a flag that is not set.
bool IsSet(const std::string& flag, const std::string& value) {
  gflags::CommandLineFlagInfo info;
  const bool known = gflags::GetCommandLineFlagInfo(flag.c_str(), &info);
  const bool is_off = value.empty() || value == "0" || value == "false" || value == "auto";
  return !is_off || (known && info.default_value != value);
}

}  // namespace

double WallNow() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Status CheckModelOut(const std::string& path) {
  namespace fs = std::filesystem;
  if (path.empty()) return {};
  std::error_code error;
  if (fs::is_directory(path, error))
    return Invalid("--model_out=" + path + ": expected a file, found a folder");
  const std::string folder = fs::absolute(path, error).parent_path();
  if (::access(folder.c_str(), W_OK | X_OK) == 0) return {};
  return IoError("--model_out=" + path + ": cannot write to the folder " + folder, errno);
}

Result<int> RunRecord::Conduct(bool chief, const std::function<Result<RunOutcome>()>& work,
                               const std::function<void()>& print_end) {
  if (options_.run.resume) earlier_ = trainer::ReadRunJson(options_.run.path);
  changes_ = trainer::ChangedFlags(earlier_, options_.flags);
  std::erase_if(changes_, [](const auto& change) { return MayChange(change.name); });
  if (IsFinished() && changes_.empty() && chief) {
    std::printf("finished  already, at step %s: %s\nrun       %s\n",
                WithCommas(trainer::StepsInRunJson(earlier_)).c_str(),
                options_.in_job ? "the job continues from its last checkpoint anyway"
                                : "nothing is left to do",
                options_.run.path.c_str());
    if (!options_.in_job) return 0;
  }
  if (chief) RETURN_IF_ERROR(Open());
  RETURN_IF_ERROR(CheckResumable());
  const Result<RunOutcome> outcome = work();
  const Status recorded = Finish(outcome);
  if (!outcome.ok()) return Explain(outcome.status());
  RETURN_IF_ERROR(recorded);
  print_end();
  return outcome->stopped ? kExitInterrupted : 0;
}

Status RunRecord::Open() {
  if (options_.run.path.empty()) return {};
  auto folder = trainer::RunFolder::Open(options_.run);
  if (!folder.ok()) {
    const bool is_run = !trainer::ReadRunJson(options_.run.path).empty();
    const char* flags = is_run ? " (--run_dir, --resume, --overwrite)" : "";
    return {folder.status().code(), folder.status().message() + flags};
  }
  folder_.emplace(std::move(*folder));
  return {};
}

bool RunRecord::IsFinished() const { return trainer::StatusInRunJson(earlier_) == "finished"; }

bool RunRecord::HasCheckpoint() const {
  namespace fs = std::filesystem;
  std::error_code ignored;
  for (const auto& entry : fs::recursive_directory_iterator(folder_->checkpoints(), ignored)) {
    if (entry.is_regular_file(ignored)) return true;
  }
  return false;
}

Status RunRecord::CheckResumable() const {
  if (!folder_ || !IsFinished() || HasCheckpoint()) return {};
  return Invalid(folder_->path() + " holds a finished run without checkpoints: nothing to resume" +
                 ChangesText() + "; expected the same flags, another --run_dir, or --overwrite");
}

// "; changed since: --seed=2 (was 1), --hash_bits=20 (was not set), no --l1 (was 0.05)"
std::string RunRecord::ChangesText() const {
  std::string text;
  for (const trainer::FlagChange& change : changes_) {
    const bool is_set = IsSet(change.name, change.now);
    text += (text.empty() ? "; changed since: " : ", ");
    text += is_set ? "--" + change.name + "=" + change.now : "no --" + change.name;
    text += " (was " + (IsSet(change.name, change.before) ? change.before : "not set") + ")";
  }
  return text;
}

Status RunRecord::Explain(const Status& status) const {
  if (begun_ || changes_.empty() || status.code() != Code::kInvalid) return status;
  return {status.code(), status.message() + ChangesText()};
}

Status RunRecord::Begin(std::optional<uint64_t> resumed_step) {
  if (!folder_) return {};
  trainer::RunInfo info;
  info.program = options_.program;
  info.version = MILLRACE_VERSION;
  info.flags = options_.flags;
  info.seed = options_.seed;
  info.host = trainer::DescribeHost();
  info.pid = ::getpid();
  info.start_time_s = WallNow();
  info.resumed_step = resumed_step;
  info.start = start_;
  RETURN_IF_ERROR(folder_->Begin(info));
  begun_ = true;
  ASSIGN_OR_RETURN(auto log, trainer::MetricsLog::Open({.run_dir = folder_->path(),
                                                        .host = info.host.name,
                                                        .wall_time_s = WallNow(),
                                                        .resume_step = resumed_step,
                                                        .columns = options_.columns}));
  log_.emplace(std::move(log));
  return {};
}

Status RunRecord::Finish(const Result<RunOutcome>& outcome) {
  if (!begun_) return {};
  const Status& status = outcome.status();
  trainer::RunEnd end;
  end.end_time_s = WallNow();
  end.message = status.message();
  const bool interrupted = status.code() == Code::kCancelled && Interrupted();
  end.status = interrupted ? trainer::RunStatus::kInterrupted : trainer::RunStatus::kFailed;
  if (outcome.ok()) {
    end.status =
        outcome->stopped ? trainer::RunStatus::kInterrupted : trainer::RunStatus::kFinished;
    end.steps = outcome->steps;
    end.metrics = outcome->metrics;
    end.best = outcome->best;
    end.warnings = outcome->warnings;
  }
  return folder_->Finish(end);
}

Status RunRecord::StartProfile() { return FromText(profile_.Start(options_.profile)); }

Status RunRecord::FinishProfile() { return FromText(profile_.Finish()); }

Status RunRecord::Append(const std::string& line, const trainer::MetricsRow& row) {
  PrintLine(line);
  return AppendRow(row);
}

void RunRecord::PrintLine(const std::string& line) {
  if (progress_) progress_->Hide();
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

Status RunRecord::AppendRow(const trainer::MetricsRow& row) {
  return log_ ? log_->Append(row, WallNow()) : Status();
}

Status RunRecord::AddGraph(const std::string& graph_def) {
  return log_ ? log_->AddGraph(graph_def, WallNow()) : Status();
}

Status RunRecord::Sync() { return log_ ? log_->Sync() : Status(); }

void RunRecord::Note(const std::string& note) {
  if (progress_) progress_->Hide();
  std::fprintf(stderr, "%s: %s\n", options_.program, PrintableLines(note).c_str());
}

void RunRecord::StartProgress(const char* unit, uint64_t total, bool resumed) {
  progress_options_ = {.work = "training", .unit = unit, .total = total};
  if (!resumed) progress_.emplace(progress_options_);
}

void RunRecord::ShowProgress(uint64_t examples, std::optional<double> loss, uint64_t estimate) {
  char text[32] = "";
  if (loss) std::snprintf(text, sizeof text, ", loss %.4f", *loss);
  if (!progress_) {
    progress_options_.first = shown_ = examples;
    progress_.emplace(progress_options_);
  }
  if (examples > shown_) progress_->Add(examples - shown_, text);
  shown_ = examples;
  WriteProgress(progress_options_.total > 0 ? progress_options_.total : estimate);
}

void RunRecord::EndProgress() {
  progress_.reset();
  if (folder_) std::remove((folder_->path() + "/progress.json").c_str());
}

// For a live page, so only if there is one. A page can do without: errors do not matter.
void RunRecord::WriteProgress(uint64_t total) {
  constexpr double kPeriodS = 0.5;
  const double seconds = progress_->seconds();
  if (!folder_ || seconds < next_file_s_) return;
  next_file_s_ = seconds + kPeriodS;
  const std::string watched = folder_->path() + "/" + profiler::kWatchedFile;
  if (::access(watched.c_str(), F_OK) != 0) return;
  const double rate = static_cast<double>(shown_ - progress_options_.first) / seconds;
  std::string text;
  JsonWriter json(text);
  json.BeginObject();
  json.Key("examples");
  json.Uint(shown_);
  json.Key("examples_per_s");
  json.Double(std::round(rate));
  if (total > 0 && rate > 0) {
    json.Key("total");
    json.Uint(std::max(total, shown_));
    json.Key("seconds_left");
    json.Double(static_cast<double>(std::max(total, shown_) - shown_) / rate);
  }
  json.EndObject();
  const std::string path = folder_->path() + "/progress.json", temporary = path + ".tmp";
  std::remove(temporary.c_str());
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return;
  const bool whole = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (::close(fd) != 0 || !whole || std::rename(temporary.c_str(), path.c_str()) != 0)
    std::remove(temporary.c_str());
}

}  // namespace millrace::tools
