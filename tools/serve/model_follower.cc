// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/model_follower.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "io/base/json.h"
#include "tools/common/program.h"
#include "tools/predict/export.h"
#include "tools/serve/score_json.h"
#include "trainer/run/run_folder.h"

namespace millrace::serve {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "MILLSERV";  // of serving models
constexpr std::string_view kSuffix = ".serving";

std::optional<ModelFile> FileAt(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  return ModelFile{.path = path,
                   .device = info.st_dev,
                   .inode = info.st_ino,
                   .size = static_cast<uint64_t>(info.st_size),
                   .changed_ns = int64_t{info.st_mtim.tv_sec} * 1000000000 + info.st_mtim.tv_nsec};
}

void AddServingModels(const std::string& folder, std::vector<ModelFile>& files) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string path = it->path().string();
    if (!path.ends_with(kSuffix) || it->path().filename().string().starts_with(".")) continue;
    if (auto file = FileAt(path)) files.push_back(std::move(*file));
  }
}

bool IsServingModel(const std::string& path) {
  char head[kMagic.size()];
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t size = ::read(fd, head, sizeof head);
  ::close(fd);
  return size == static_cast<ssize_t>(sizeof head) && std::string_view(head, sizeof head) == kMagic;
}

double AgeSeconds(const ModelFile& file) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<double>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count() -
                             file.changed_ns) *
         1e-9;
}

}  // namespace

Result<std::vector<ModelFile>> FindModels(const std::string& path) {
  std::vector<ModelFile> files;
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    if (auto file = FileAt(path)) files.push_back(std::move(*file));
    if (!files.empty()) return files;
    return NotFound(path + ": there is no such file or folder");
  }
  AddServingModels(path, files);
  AddServingModels(path + "/model", files);
  const Result<std::string> of_run = trainer::ModelFileOf(path);
  if (of_run.ok()) {
    if (auto file = FileAt(*of_run)) files.push_back(std::move(*file));
  }
  // The newest first. The order of names decides for equal times.
  std::sort(files.begin(), files.end(), [](const ModelFile& a, const ModelFile& b) {
    return std::pair(a.changed_ns, a.path) > std::pair(b.changed_ns, b.path);
  });
  if (!files.empty()) return files;
  return NotFound(path + ": expected a run folder with a model, or a folder with *" +
                  std::string(kSuffix) + " files");
}

ModelFollower::ModelFollower(Private, const FollowOptions& options, Metrics& metrics,
                             std::function<void(const std::string&)> note)
    : options_(options), metrics_(metrics), note_(std::move(note)) {}

ModelFollower::~ModelFollower() {
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
  millrace_score_close(scorer_);
}

Result<std::unique_ptr<ModelFollower>> ModelFollower::Open(
    const FollowOptions& options, Metrics& metrics, std::function<void(const std::string&)> note) {
  auto follower = std::make_unique<ModelFollower>(Private{}, options, metrics, std::move(note));
  ASSIGN_OR_RETURN(const std::vector<ModelFile> files, FindModels(options.model));
  Status first;
  for (const ModelFile& file : files) {
    const Status status = follower->Use(file);
    if (status.ok()) return follower;
    if (status.code() == Code::kCancelled) return status;
    if (first.ok()) first = status;
    if (files.size() > 1) follower->note_(file.path + " is not served: " + status.message());
    follower->refused_.push_back(file);
  }
  return first;
}

ModelFile ModelFollower::file() const {
  const std::lock_guard lock(mu_);
  return file_;
}

// Opens the model of `file`, in place of the one that is served.
Status ModelFollower::Use(const ModelFile& file) {
  std::string path = file.path;
  const bool convert = !IsServingModel(path);
  if (convert) {
    path =
        options_.work_dir + "/millrace-serve-" + std::to_string(::getpid()) + std::string(kSuffix);
    RETURN_IF_ERROR(
        predict::ExportModel({.model = file.path, .out = path, .should_stop = tools::Interrupted})
            .status());
  }
  const uint32_t flags = (options_.copy ? MILLRACE_SCORE_COPY : MILLRACE_SCORE_PRELOAD) |
                         (options_.verify && !convert ? MILLRACE_SCORE_VERIFY : 0);
  millrace_score_error error;
  const int code = scorer_ ? millrace_score_swap(scorer_, path.c_str(), flags, &error)
                           : millrace_score_open(path.c_str(), flags, &scorer_, &error);
  if (convert) ::unlink(path.c_str());  // the mapping stays
  if (code != MILLRACE_SCORE_OK) return Failed(error.message);
  millrace_score_limit_keys(scorer_, options_.max_keys);
  const std::lock_guard lock(mu_);
  file_ = file;
  return {};
}

void ModelFollower::Poll() {
  const Result<std::vector<ModelFile>> files = FindModels(options_.model);
  if (!files.ok()) {
    if (!std::exchange(no_model_noted_, true)) {
      note_(files.status().message() + "; the model that is loaded stays");
    }
    return;
  }
  no_model_noted_ = false;
  std::vector<ModelFile> refused;
  for (const ModelFile& file : *files) {
    if (file == this->file()) break;  // those behind it are older
    if (std::find(refused_.begin(), refused_.end(), file) != refused_.end()) {
      refused.push_back(file);
      continue;
    }
    const auto begin = std::chrono::steady_clock::now();
    const Status status = Use(file);
    if (status.code() == Code::kCancelled) return;
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (status.ok()) {
      metrics_.CountSwap();
      char text[32];
      std::snprintf(text, sizeof text, "%.3f", seconds);
      note_("serves " + file.path + " now, loaded in " + text + " s");
      break;
    }
    metrics_.CountRefused();
    note_(file.path + " is refused, the model that is loaded stays: " + status.message());
    refused.push_back(file);
  }
  refused_ = std::move(refused);
}

void ModelFollower::Run(const std::stop_token& stop) {
  const auto interval = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(options_.poll_seconds));
  while (!stop.stop_requested()) {
    {
      std::unique_lock lock(mu_);
      stopped_.wait_for(lock, stop, interval, [] { return false; });
    }
    if (!stop.stop_requested()) Poll();
  }
}

void ModelFollower::Follow() {
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

Status ModelFollower::AppendMetrics(std::string& out) {
  millrace_score_info info;
  millrace_score_error error;
  RETURN_IF_ERROR(StatusOf(millrace_score_get_info(scorer_, &info, &error), error));
  const auto gauge = [&](const char* name, const char* help, double value) {
    AppendType(name, help, "gauge", out);
    char text[40];
    std::snprintf(text, sizeof text, "%.17g", value);
    out += std::string(name) + " " + text + "\n";
  };
  AppendType("millrace_serve_model_info", "the model that is served", "gauge", out);
  out += std::string("millrace_serve_model_info{digest=\"") + info.digest + "\",kind=\"" +
         info.kind + "\",weights=\"" + info.weights_type + "\"} 1\n";
  gauge("millrace_serve_model_age_seconds", "since the file of the model was written",
        AgeSeconds(file()));
  gauge("millrace_serve_model_steps", "training steps of the model",
        static_cast<double>(info.steps));
  gauge("millrace_serve_model_examples", "examples that the model was trained on",
        static_cast<double>(info.examples));
  gauge("millrace_serve_model_bytes", "size of the serving model",
        static_cast<double>(info.file_bytes));
  millrace_score_free_info(&info);
  return {};
}

Status ModelFollower::AppendInfo(std::string& out) {
  millrace_score_info info;
  millrace_score_error error;
  RETURN_IF_ERROR(StatusOf(millrace_score_get_info(scorer_, &info, &error), error));
  JsonWriter json(out);
  const auto number = [&](const char* name, uint64_t value) {
    json.Key(name);
    json.Uint(value);
  };
  const auto text = [&](const char* name, std::string_view value) {
    json.Key(name);
    json.String(value);
  };
  json.BeginObject();
  text("path", file().path);
  text("digest", info.digest);
  text("kind", info.kind);
  text("weights_type", info.weights_type);
  number("num_features", info.num_features);
  number("num_weights", info.num_weights);
  number("steps", info.steps);
  number("examples", info.examples);
  number("bytes", info.file_bytes);
  json.Key("feature_spec");
  info.feature_spec ? json.Json(info.feature_spec) : json.Null();
  json.EndObject();
  millrace_score_free_info(&info);
  return {};
}

}  // namespace millrace::serve
