// SPDX-License-Identifier: Apache-2.0
#include "trainer/sweep/sweep_table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "io/state/state_fields.h"

namespace millrace::trainer {
namespace {

using Line = std::vector<std::string>;

std::string Cell(double value) { return std::isfinite(value) ? io::NumberText(value) : ""; }

std::string Fixed(double value, int digits, bool sign = false) {
  if (!std::isfinite(value)) return "-";
  char text[64];
  std::snprintf(text, sizeof text, sign ? "%+.*f" : "%.*f", digits, value);
  return text;
}

// Of the last evaluation; NaN without one.
double Metric(const SweptModel& model, std::string_view name) {
  return (model.rows.empty() ? MetricsRow() : model.rows.back()).Metric(name);
}

// "auto" becomes the rate that was chosen.
std::string ValueText(const SweepConfig& config, size_t option) {
  const auto& [name, value] = config.options[option];
  return value == "auto" ? io::NumberText(config.update.Rate()) : value;
}

int RankOf(const SweptModel& model) {
  return model.end == SweepEnd::kDropped ? 1 : (model.end == SweepEnd::kDiverged ? 2 : 0);
}

// Models that were trained to their end, by logloss or loss; then those that were dropped, the last
// ones first.
std::vector<size_t> Ranked(const std::vector<SweptModel>& models, const SweepResult& result) {
  std::vector<size_t> order(models.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto loss = [&](size_t m) {
    const double difference = result.models[m].logloss.difference;
    return std::isfinite(difference) ? difference : models[m].MeanLoss();
  };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if ((a == result.best) != (b == result.best)) return a == result.best;
    const int rank_a = RankOf(models[a]), rank_b = RankOf(models[b]);
    if (rank_a != rank_b) return rank_a < rank_b;
    if (rank_a > 0 && models[a].state.examples != models[b].state.examples)
      return models[a].state.examples > models[b].state.examples;
    return loss(a) < loss(b);
  });
  return order;
}

std::string Aligned(const std::vector<Line>& lines) {
  std::vector<size_t> widths;
  for (const Line& line : lines) {
    widths.resize(std::max(widths.size(), line.size()));
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const Line& line : lines) {
    std::string row;
    for (size_t i = 0; i < line.size(); ++i) {
      row.append((i > 0 ? 2 : 0) + widths[i] - line[i].size(), ' ');
      row += line[i];
    }
    text += row + "\n";
  }
  return text;
}

std::string IntervalText(const SweepComparison& own) {
  const auto& [difference, low, high] = own.logloss;
  if (own.result == SweepResultOf::kBest || !std::isfinite(low)) return "";
  return Fixed(difference, 5, true) + " (" + Fixed(low, 5, true) + " to " + Fixed(high, 5, true) +
         ")";
}

}  // namespace

std::string SweepCsv(const std::vector<SweepConfig>& configs, const std::vector<SweptModel>& models,
                     const SweepResult& result) {
  const std::vector<NamedValue> metrics = NamedValues(BinaryMetrics());
  std::string text = "config";
  for (const auto& [name, value] : configs.front().options) text += "," + name;
  text += ",end,steps,examples,loss";
  for (const NamedValue& metric : metrics) text += "," + std::string(metric.name);
  for (const char* metric : {"logloss", "auc"}) {
    const std::string name = std::string(",") + metric + "_difference";
    text += name + name + "_low" + name + "_high";
  }
  text += ",result\n";
  for (size_t m = 0; m < models.size(); ++m) {
    const SweptModel& model = models[m];
    text += std::to_string(m + 1);
    for (size_t i = 0; i < configs[m].options.size(); ++i) text += "," + ValueText(configs[m], i);
    text += std::string(",") + SweepEndName(model.end) + "," + std::to_string(model.state.steps) +
            "," + std::to_string(model.state.examples) + "," + Cell(model.MeanLoss());
    for (const NamedValue& metric : metrics) text += "," + Cell(Metric(model, metric.name));
    const SweepComparison& own = result.models[m];
    for (const auto& [difference, low, high] : {own.logloss, own.auc}) {
      text += "," + Cell(difference) + "," + Cell(low) + "," + Cell(high);
    }
    text += std::string(",") + SweepResultName(own.result) + "\n";
  }
  return text;
}

std::string SweepText(const std::vector<SweepConfig>& configs,
                      const std::vector<SweptModel>& models, const SweepResult& result) {
  std::vector<Line> lines(1);
  lines[0] = {"config"};
  for (const auto& [name, value] : configs.front().options) lines[0].push_back(name);
  for (const char* title : {"examples", "loss", "logloss", "auc", "logloss difference", ""})
    lines[0].emplace_back(title);
  for (const size_t m : Ranked(models, result)) {
    const SweptModel& model = models[m];
    Line line = {std::to_string(m + 1)};
    for (size_t i = 0; i < configs[m].options.size(); ++i) line.push_back(ValueText(configs[m], i));
    line.push_back(std::to_string(model.state.examples));
    line.push_back(Fixed(model.MeanLoss(), 5));
    line.push_back(Fixed(Metric(model, "logloss"), 5));
    line.push_back(Fixed(Metric(model, "auc"), 4));
    line.push_back(IntervalText(result.models[m]));
    line.emplace_back(model.end == SweepEnd::kDone ||
                              result.models[m].result != SweepResultOf::kUnknown
                          ? SweepResultName(result.models[m].result)
                          : SweepEndName(model.end));
    lines.push_back(std::move(line));
  }
  return Aligned(lines);
}

std::string SweepFlags(const SweepConfig& config) {
  std::string text;
  for (size_t i = 0; i < config.options.size(); ++i) {
    text += (i > 0 ? " --" : "--") + config.options[i].first + "=" + ValueText(config, i);
  }
  return text;
}

}  // namespace millrace::trainer
