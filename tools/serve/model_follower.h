// SPDX-License-Identifier: Apache-2.0
// Finds the model to serve, and replaces it when a newer one appears.
//
//   a file       a serving model, or any model that millrace-predict reads
//   a folder     the newest of its serving models (*.serving), which are put there by renaming
//   a run folder the newest of model/*.serving and the model of the run
//
// A model that is no serving model is converted first, into a file that exists only until it is
// open.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "io/base/status.h"
#include "millrace/score.h"
#include "tools/serve/metrics.h"

namespace millrace::serve {

struct FollowOptions {
  std::string model;              // the path
  std::string work_dir = "/tmp";  // for converted models
  double poll_seconds = 1;
  bool verify = true;           // reads the whole file before it is used
  bool copy = false;            // MILLRACE_SCORE_COPY
  uint64_t max_keys = 1000000;  // of a request
};

// Identifies the content of a path: files are replaced by renaming.
struct ModelFile {
  std::string path;
  uint64_t device = 0, inode = 0, size = 0;
  int64_t changed_ns = 0;  // since 1970
  auto operator<=>(const ModelFile&) const = default;
};

// The files that could be served, the best one first. Empty: there is none.
Result<std::vector<ModelFile>> FindModels(const std::string& path);

class ModelFollower {
  struct Private {};  // only Open creates followers

 public:
  // Opens the best file that is a model: broken ones are reported by `note` and passed over.
  static Result<std::unique_ptr<ModelFollower>> Open(const FollowOptions& options, Metrics& metrics,
                                                     std::function<void(const std::string&)> note);
  ModelFollower(Private, const FollowOptions& options, Metrics& metrics,
                std::function<void(const std::string&)> note);
  ~ModelFollower();

  // Looks for newer models from now on, in a thread of its own.
  void Follow();

  millrace_scorer* scorer() { return scorer_; }
  // Of the model that is served; thread-safe.
  ModelFile file() const;
  // Appends the model's part of /metrics.
  Status AppendMetrics(std::string& out);
  // Describes the model: the body of /v1/model.
  Status AppendInfo(std::string& out);

 private:
  Status Use(const ModelFile& file);
  void Poll();
  void Run(const std::stop_token& stop);

  const FollowOptions options_;
  Metrics& metrics_;
  const std::function<void(const std::string&)> note_;
  millrace_scorer* scorer_ = nullptr;
  std::vector<ModelFile> refused_;  // of the last look
  bool no_model_noted_ = false;
  mutable std::mutex mu_;
  std::condition_variable_any stopped_;
  ModelFile file_;  // guarded by mu_
  std::jthread thread_;
};

}  // namespace millrace::serve
