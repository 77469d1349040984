// One test of the model in the course of a run, and its forms: for people, CSV, JSON, TensorBoard.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/run/binary_metrics.h"
#include "trainer/run/event_file.h"

namespace millrace::trainer {

struct MetricsRow {
  uint64_t step = 0;      // batches learnt from
  uint64_t examples = 0;  // examples learnt from
  double epoch = 0;       // the pass that the last of them belongs to, from 1 on
  double seconds = 0;     // of training and testing, those before a resume included
  double loss = 0;  // mean over the examples since the last row, each taken before learning it
  BinaryMetrics test = {};
  double examples_per_s = 0;  // learnt, since the last row, testing left out
};

// A test of any model: the same with the metrics under their names.
struct NamedRow {
  uint64_t step = 0;
  uint64_t examples = 0;
  double epoch = 0;
  double seconds = 0;
  double loss = 0;
  std::vector<NamedValue> test = {};
  double examples_per_s = 0;
};
NamedRow Named(const MetricsRow& row);

// Examples a second; NaN over a time that is too short to tell.
double RowRate(uint64_t examples, double seconds);

// A header and lines of the same columns, without an end of line; what is not defined reads "nan".
std::string FormatConsoleHeader();
std::string FormatConsoleLine(const MetricsRow& row);

// Lines with their end. Numbers have the shortest digits that give the same number again, seconds
// are rounded to milliseconds, examples_per_s to whole ones; what is not finite is an empty cell in
// CSV and null in JSON.
std::string CsvHeader(const NamedRow& row = Named({}));  // its columns
std::string CsvLine(const NamedRow& row);
std::string JsonLine(const NamedRow& row);

// train/loss, train/examples_per_s, and the test's metrics as test/auc and so on; what is not
// finite is left out.
std::vector<Scalar> EventScalars(const NamedRow& row);

inline std::string CsvLine(const MetricsRow& row) { return CsvLine(Named(row)); }
inline std::string JsonLine(const MetricsRow& row) { return JsonLine(Named(row)); }
inline std::vector<Scalar> EventScalars(const MetricsRow& row) { return EventScalars(Named(row)); }

}  // namespace millrace::trainer
