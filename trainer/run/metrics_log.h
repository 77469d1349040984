// SPDX-License-Identifier: Apache-2.0
// The metrics of a run: a row for each evaluation of the model, in metrics.csv, metrics.jsonl and a
// TensorBoard event file of the run folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "io/base/status.h"
#include "trainer/run/append_file.h"
#include "trainer/run/event_file.h"
#include "trainer/run/metrics_row.h"

namespace millrace::trainer {

struct MetricsLogOptions {
  std::string run_dir;
  std::string host;
  double wall_time_s = 0;  // since 1970
  // The step of the checkpoint that the run resumes from: rows beyond it are dropped, because they
  // will be written again. Absent: the files start empty.
  std::optional<uint64_t> resume_step = {};
  // A row with the metrics that all rows will have.
  MetricsRow columns = {.test = NamedValues(BinaryMetrics())};
};

// On return of Append the row is in the files; readers never see a partial row. A run that appends
// the row of a step before it writes the checkpoint of that step, and that is killed and resumed
// from the checkpoint, has the rows of an uninterrupted run. Not thread-safe.
class MetricsLog {
 public:
  static Result<MetricsLog> Open(const MetricsLogOptions& options);

  Status Append(const MetricsRow& row, double wall_time_s);
  // The computation graph, for the event file: a GraphDef message.
  Status AddGraph(std::string_view graph_def, double wall_time_s) {
    return events_.AddGraph(wall_time_s, graph_def);
  }
  // Call it before a checkpoint, so that a loss of power cannot lose rows that the checkpoint
  // counts.
  Status Sync();

 private:
  MetricsLog(AppendFile csv, AppendFile jsonl, EventFile events)
      : csv_(std::move(csv)), jsonl_(std::move(jsonl)), events_(std::move(events)) {}

  AppendFile csv_;
  AppendFile jsonl_;
  EventFile events_;
};

}  // namespace millrace::trainer
