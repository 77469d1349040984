// SPDX-License-Identifier: Apache-2.0
// Scalars against training steps, as TensorBoard reads them: a TFRecord file of Event messages.
//
//   Event      1: wall_time double   2: step int64   3: file_version "brain.Event:2" (first record)
//              4: GraphDef, as bytes   5: Summary   7: SessionLog
//   Summary    1: Value, one for each scalar
//   Value      1: tag   2: simple_value float
//   SessionLog 1: status (1 is START)
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "io/base/status.h"
#include "trainer/run/append_file.h"

namespace millrace::trainer {

struct Scalar {
  std::string tag;
  float value = 0;
};

struct EventFileOptions {
  std::string folder;
  std::string host;
  double wall_time_s = 0;  // since 1970; gives the file its name
  // The step that the run resumes from. TensorBoard then forgets later steps that it has
  // read from the folder's older files.
  std::optional<uint64_t> resume_step = {};
};

// The file only grows, and each Add is in it on return: a running TensorBoard sees it immediately.
// If the process is killed, only the last record may be incomplete, which readers ignore. Not
// thread-safe.
class EventFile {
 public:
  // Creates events.out.tfevents.<seconds>.<host>, with a suffix .1, .2, ... if that file exists.
  static Result<EventFile> Create(const EventFileOptions& options);

  Status Add(double wall_time_s, uint64_t step, std::span<const Scalar> scalars);
  Status AddGraph(double wall_time_s, std::string_view graph_def);
  Status Sync() { return file_.Sync(); }

  const std::string& path() const { return file_.path(); }

 private:
  explicit EventFile(AppendFile file) : file_(std::move(file)) {}

  AppendFile file_;
};

}  // namespace millrace::trainer
