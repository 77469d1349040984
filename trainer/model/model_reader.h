// SPDX-License-Identifier: Apache-2.0
// Reads the weights of a model file, binary or text, or of a checkpoint.
#pragma once

#include <memory>
#include <string>

#include "io/base/status.h"
#include "io/state/state_file.h"
#include "trainer/model/model.h"

namespace millrace::trainer {

// Errors name file, offset, expected and found. Not thread-safe.
class ModelReader {
 public:
  // Detects the format from the content. A run folder stands for its model.
  static Result<std::unique_ptr<ModelReader>> Open(const std::string& file_or_run);
  virtual ~ModelReader() = default;

  const ModelInfo& info() const { return info_; }
  // True and some weights (the first float of each entry; the factors follow), false at a valid end
  // of the file, or an error. Keys ascend and are below num_features or the intercept's; weights
  // are finite. The intercept is that of rows with info().centers.
  Result<bool> Next(io::StateBlock& block);

 protected:
  ModelReader(std::string path, ModelInfo info) : path_(std::move(path)), info_(std::move(info)) {}
  virtual Result<bool> ReadBlock(io::StateBlock& block) = 0;

  std::string path_;
  ModelInfo info_;
};

}  // namespace millrace::trainer
