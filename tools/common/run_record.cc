#include "tools/common/run_record.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>

#include "tools/common/interrupt.h"
#include "trainer/run/host_info.h"

namespace millrace::tools {
namespace {

using io::Status;

// The profiler knows no Status: it says what went wrong, or nothing.
Status FromText(const std::string& error) {
  return error.empty() ? Status() : Status(io::Code::kIo, error);
}

template <typename Clock>
double SecondsOf() {
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

}  // namespace

double SteadyNow() { return SecondsOf<std::chrono::steady_clock>(); }
double WallNow() { return SecondsOf<std::chrono::system_clock>(); }

Status CheckModelOut(const std::string& path) {
  namespace fs = std::filesystem;
  if (path.empty()) return {};
  std::error_code error;
  if (fs::is_directory(path, error))
    return io::Invalid("--model_out=" + path + ": expected a file, found a folder");
  const std::string folder = fs::absolute(path, error).parent_path();
  if (::access(folder.c_str(), W_OK | X_OK) == 0) return {};
  return io::IoError("--model_out=" + path + ": cannot write to the folder " + folder, errno);
}

Status RunRecord::Open() {
  if (options_.run.path.empty()) return {};
  ASSIGN_OR_RETURN(auto folder, trainer::RunFolder::Open(options_.run));
  folder_.emplace(std::move(folder));
  return {};
}

Status RunRecord::CheckResumable() const {
  if (!folder_ || !options_.run.resume || folder_->earlier_status() != "finished") return {};
  namespace fs = std::filesystem;
  std::error_code ignored;
  for (const auto& entry : fs::recursive_directory_iterator(folder_->checkpoints(), ignored)) {
    if (entry.is_regular_file(ignored)) return {};
  }
  return io::Invalid(folder_->path() +
                     " holds a finished run without checkpoints: nothing to resume; expected "
                     "another --run_dir, or --overwrite");
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

Status RunRecord::Finish(const Status& status, bool stopped,
                         std::vector<trainer::NamedValue> metrics) {
  if (!begun_) return {};
  trainer::RunEnd end;
  end.end_time_s = WallNow();
  end.message = status.message();
  const bool interrupted = status.code() == io::Code::kCancelled && Interrupted();
  end.status = interrupted ? trainer::RunStatus::kInterrupted : trainer::RunStatus::kFailed;
  if (status.ok()) {
    end.status = stopped ? trainer::RunStatus::kInterrupted : trainer::RunStatus::kFinished;
    end.metrics = std::move(metrics);
  }
  return folder_->Finish(end);
}

Status RunRecord::StartProfile() { return FromText(profile_.Start(options_.profile)); }

Status RunRecord::FinishProfile() { return FromText(profile_.Finish()); }

Status RunRecord::Append(const trainer::NamedRow& row) {
  return log_ ? log_->Append(row, WallNow()) : Status();
}

Status RunRecord::AddGraph(const std::string& graph_def) {
  return log_ ? log_->AddGraph(graph_def, WallNow()) : Status();
}

Status RunRecord::Sync() { return log_ ? log_->Sync() : Status(); }

void RunRecord::StartProgress(const char* unit, uint64_t total) {
  progress_.emplace(ProgressOptions{.work = "training", .unit = unit, .total = total});
}

void RunRecord::ShowProgress(uint64_t examples) {
  if (examples > shown_) progress_->Add(examples - shown_);
  shown_ = examples;
}

}  // namespace millrace::tools
