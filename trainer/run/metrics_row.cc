// SPDX-License-Identifier: Apache-2.0
#include "trainer/run/metrics_row.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

#include "io/base/json.h"

namespace millrace::trainer {
namespace {

struct Cell {
  std::string_view name;
  double value = 0;
  bool is_count = false;
};

std::vector<Cell> Cells(const MetricsRow& row) {
  std::vector<Cell> cells = {{"step", static_cast<double>(row.step), true},
                             {"examples", static_cast<double>(row.examples), true},
                             {"epoch", row.epoch},
                             {"seconds", std::round(row.seconds * 1000) / 1000},
                             {"loss", row.loss}};
  for (const NamedValue& metric : row.test) {
    cells.push_back({metric.name, metric.value});
  }
  cells.push_back({"examples_per_s", std::round(row.examples_per_s)});
  return cells;
}

std::string CsvText(const Cell& cell) {
  if (!std::isfinite(cell.value)) return "";
  char text[64];
  char* const end = text + sizeof text;
  if (cell.is_count) {
    return {text, std::to_chars(text, end, static_cast<uint64_t>(cell.value)).ptr};
  }
  return {text, std::to_chars(text, end, cell.value).ptr};
}

void WriteCell(const Cell& cell, JsonWriter& json) {
  json.Key(cell.name);
  if (!std::isfinite(cell.value)) return json.Null();
  if (cell.is_count) return json.Uint(static_cast<uint64_t>(cell.value));
  json.Double(cell.value);
}

struct ConsoleColumn {
  const char* title;
  size_t width;
};
constexpr ConsoleColumn kConsole[] = {
    {"step", 9},     {"examples", 11}, {"loss", 7},   {"logloss", 7}, {"auc", 6},
    {"accuracy", 8}, {"precision", 9}, {"recall", 6}, {"ne", 6},      {"examples/s", 10}};

// Flush right, two spaces between columns.
template <typename Texts>
std::string ConsoleLine(const Texts& texts) {
  std::string line;
  size_t column = 0;
  for (const std::string& text : texts) {
    const size_t width = kConsole[column].width;
    if (column++ > 0) line += "  ";
    line.append(width > text.size() ? width - text.size() : 0, ' ');
    line += text;
  }
  return line;
}

std::string Fixed(double value, int digits) {
  if (std::isnan(value)) return "nan";  // never "-nan"
  char text[400];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

}  // namespace

double MetricsRow::Metric(std::string_view name) const {
  for (const NamedValue& metric : test) {
    if (metric.name == name) return metric.value;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

double RowRate(uint64_t examples, double seconds) {
  constexpr double kShortestS = 1e-3;
  if (seconds < kShortestS) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(examples) / seconds;
}

std::string FormatConsoleHeader() {
  std::vector<std::string> titles;
  for (const ConsoleColumn& column : kConsole) titles.emplace_back(column.title);
  return ConsoleLine(titles);
}

std::string FormatConsoleLine(const MetricsRow& row) {
  const std::string rate = std::isnan(row.examples_per_s) ? "-" : Fixed(row.examples_per_s, 0);
  const std::string texts[] = {std::to_string(row.step),
                               std::to_string(row.examples),
                               Fixed(row.loss, 5),
                               Fixed(row.Metric("logloss"), 5),
                               Fixed(row.Metric("auc"), 4),
                               Fixed(row.Metric("accuracy"), 4),
                               Fixed(row.Metric("precision"), 4),
                               Fixed(row.Metric("recall"), 4),
                               Fixed(row.Metric("ne"), 4),
                               rate};
  static_assert(std::size(texts) == std::size(kConsole));
  return ConsoleLine(texts);
}

std::string CsvHeader(const MetricsRow& row) {
  std::string line;
  for (const Cell& cell : Cells(row)) line += (line.empty() ? "" : ",") + std::string(cell.name);
  return line + "\n";
}

std::string CsvLine(const MetricsRow& row) {
  std::string line;
  for (const Cell& cell : Cells(row)) line += (line.empty() ? "" : ",") + CsvText(cell);
  return line + "\n";
}

std::string JsonLine(const MetricsRow& row) {
  std::string line;
  JsonWriter json(line);
  json.BeginObject();
  for (const Cell& cell : Cells(row)) WriteCell(cell, json);
  json.EndObject();
  return line + "\n";
}

std::string MetricsJson(const std::vector<NamedValue>& metrics) {
  std::string text;
  JsonWriter json(text);
  json.BeginObject();
  for (const NamedValue& metric : metrics) WriteCell({metric.name, metric.value}, json);
  json.EndObject();
  return text;
}

std::vector<Scalar> EventScalars(const MetricsRow& row) {
  std::vector<Scalar> all = {{"train/loss", static_cast<float>(row.loss)},
                             {"train/examples_per_s", static_cast<float>(row.examples_per_s)}};
  for (const NamedValue& metric : row.test) {
    all.push_back({"test/" + std::string(metric.name), static_cast<float>(metric.value)});
  }
  std::erase_if(all, [](const Scalar& scalar) { return !std::isfinite(scalar.value); });
  return all;
}

}  // namespace millrace::trainer
