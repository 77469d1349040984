// SPDX-License-Identifier: Apache-2.0
#include "trainer/loop/early_stop.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

namespace millrace::trainer {
namespace {

struct Direction {
  std::string_view metric;
  bool higher_is_better;
};

// Calibration is best at 1 and has no direction.
constexpr Direction kDirections[] = {
    {"auc", true}, {"logloss", false},  {"ne", false},    {"accuracy", true},
    {"f1", true},  {"precision", true}, {"recall", true},
};

const Direction* FindDirection(std::string_view metric) {
  for (const Direction& direction : kDirections) {
    if (direction.metric == metric) return &direction;
  }
  return nullptr;
}

std::string MetricNames() {
  std::string names;
  for (const Direction& direction : kDirections) {
    names += (names.empty() ? "" : ", ") + std::string(direction.metric);
  }
  return names;
}

std::optional<uint64_t> ParseCount(std::string_view text) {
  uint64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count == 0) return std::nullopt;
  return count;
}

Status Wrong(std::string_view text, const std::string& reason) {
  return Invalid("early_stop=" + std::string(text) + ": " + reason);
}

std::string UnknownMetric(const std::string& metric, const char* purpose) {
  return "no metric \"" + metric + "\" to " + purpose + "; write one of " + MetricNames();
}

}  // namespace

Result<EarlyStopRule> ParseEarlyStop(std::string_view text) {
  if (text.empty()) return EarlyStopRule{};
  const size_t colon = text.find(':');
  const std::string metric(text.substr(0, colon));
  const Direction* direction = FindDirection(metric);
  if (!direction) {
    return Wrong(text, UnknownMetric(metric, "stop on"));
  }
  if (colon == std::string_view::npos) {
    return Wrong(text, "after how many evaluations without a new best? Write " + metric + ":3");
  }
  const std::optional<uint64_t> patience = ParseCount(text.substr(colon + 1));
  if (!patience) {
    return Wrong(text, "\"" + std::string(text.substr(colon + 1)) +
                           "\" is no number of evaluations from 1 on; write " + metric + ":3");
  }
  return EarlyStopRule{metric, *patience, direction->higher_is_better};
}

Result<EarlyStopRule> ParseSaveBest(std::string_view text) {
  if (text.empty()) return EarlyStopRule{};
  const std::string metric(text);
  const Direction* direction = FindDirection(metric);
  if (!direction) return Invalid("save_best=" + metric + ": " + UnknownMetric(metric, "compare"));
  return EarlyStopRule{.metric = metric, .higher_is_better = direction->higher_is_better};
}

EarlyStop::EarlyStop(EarlyStopRule rule, EarlyStopState state)
    : rule_(std::move(rule)), state_(std::move(state)) {
  if (rule_.enabled() && state_.metric != rule_.metric) state_ = {.metric = rule_.metric};
}

bool EarlyStop::IsBetter(double value) const {
  if (std::isnan(value)) return false;
  if (std::isnan(state_.best)) return true;
  return rule_.higher_is_better ? value > state_.best : value < state_.best;
}

bool EarlyStop::Update(const MetricsRow& row) {
  if (!rule_.enabled()) return false;
  const double value = row.Metric(rule_.metric);
  if (IsBetter(value)) {
    state_ = {.metric = rule_.metric,
              .best = value,
              .best_step = row.step,
              .best_examples = row.examples,
              .best_metrics = MetricsJson(row.test)};
    return true;
  }
  ++state_.evaluations_since_best;
  return false;
}

}  // namespace millrace::trainer
