// SPDX-License-Identifier: Apache-2.0
// One evaluation of the model during a run, and its forms: for people, CSV, JSON, TensorBoard.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/run/binary_metrics.h"
#include "trainer/run/event_file.h"

namespace millrace::trainer {

struct MetricsRow {
  uint64_t step = 0;      // batches trained on
  uint64_t examples = 0;  // examples trained on
  double epoch = 0;
  double seconds = 0;  // of training and evaluation, those before a resume included
  double loss =
      0;  // mean over the examples since the last row, each before the model trained on it
  std::vector<NamedValue> test =
      {};                     // metrics on the test set; the same names in all rows of a run
  double examples_per_s = 0;  // since the last row, evaluation left out

  // A metric of `test`; NaN if there is none of that name.
  double Metric(std::string_view name) const;
};

// Examples per second; NaN if the time is too short to measure.
double RowRate(uint64_t examples, double seconds);

// A header and lines of the same columns, for rows with the metrics of a binary classifier. Without
// an end of line; what is not defined reads "nan".
std::string FormatConsoleHeader();
std::string FormatConsoleLine(const MetricsRow& row);

// Lines with their end. Numbers have the shortest digits that give the same number again, seconds
// are rounded to milliseconds, examples_per_s to whole ones; what is not finite is an empty cell in
// CSV and null in JSON.
std::string CsvHeader(const MetricsRow& row);  // its columns
std::string CsvLine(const MetricsRow& row);
std::string JsonLine(const MetricsRow& row);

// {"auc":0.78,...} on one line; what is not finite is null.
std::string MetricsJson(const std::vector<NamedValue>& metrics);

// train/loss, train/examples_per_s, and the metrics of `test` as test/auc and so on; what is not
// finite is left out.
std::vector<Scalar> EventScalars(const MetricsRow& row);

}  // namespace millrace::trainer
