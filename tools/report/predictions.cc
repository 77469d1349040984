// SPDX-License-Identifier: Apache-2.0
#include "tools/report/predictions.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "io/base/random.h"
#include "tools/report/run_data.h"

namespace millrace::report {
namespace {

constexpr double kQuantile = 1.959963984540054;  // 95 % of a normal distribution are within it
constexpr std::string_view kHeader = "label,weight,margin";

// ln(1 + exp(-m)) of the margin of the true label.
double Logloss(float margin, bool positive) {
  const double m = positive ? double{margin} : -double{margin};
  return std::max(-m, 0.0) + std::log1p(std::exp(-std::abs(m)));
}

Difference WithError(double value, double error) {
  return {value, value - kQuantile * error, value + kQuantile * error};
}

// For each row of one class, the share of the other class's rows that the model ranks on the other
// side of it, ties counted half.
struct Placements {
  std::vector<double> positives, negatives;
  double auc = 0;
};

Placements PlacementsOf(const Predictions& predictions) {
  const size_t rows = predictions.rows();
  std::vector<uint32_t> order(rows);
  std::iota(order.begin(), order.end(), 0u);
  const std::vector<float>& margins = predictions.margins;
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return margins[a] < margins[b]; });
  std::vector<double> below(rows);  // rows of the other class below, ties counted half
  const auto count_positives = [&](size_t begin, size_t end) {
    return static_cast<double>(std::count_if(
        order.begin() + static_cast<ptrdiff_t>(begin), order.begin() + static_cast<ptrdiff_t>(end),
        [&](uint32_t row) { return predictions.labels[row] != 0; }));
  };
  double positives = 0, negatives = 0;
  for (size_t begin = 0, end = 0; begin < rows; begin = end) {
    while (end < rows && margins[order[end]] == margins[order[begin]]) ++end;
    const double here_positive = count_positives(begin, end);
    const double here_negative = static_cast<double>(end - begin) - here_positive;
    for (size_t i = begin; i < end; ++i) {
      const uint32_t row = order[i];
      below[row] =
          predictions.labels[row] ? negatives + here_negative / 2 : positives + here_positive / 2;
    }
    positives += here_positive;
    negatives += here_negative;
  }
  Placements placements;
  for (size_t row = 0; row < rows; ++row) {
    if (predictions.labels[row]) {
      placements.positives.push_back(below[row] / negatives);
    } else {
      placements.negatives.push_back(1 - below[row] / positives);
    }
  }
  for (const double share : placements.positives) placements.auc += share / positives;
  return placements;
}

// The variance of the mean of a[i] - b[i].
double VarianceOfMean(const std::vector<double>& a, const std::vector<double>& b) {
  const auto n = static_cast<double>(a.size());
  double sum = 0, squares = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += b[i] - a[i];
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = b[i] - a[i] - sum / n;
    squares += d * d;
  }
  return squares / (n - 1) / n;
}

}  // namespace

Result<Predictions> ReadPredictions(std::string_view text, const std::string& path,
                                    MemoryBudget& budget) {
  Predictions predictions;
  bool has_weights = false;
  size_t number = 0;
  uint64_t digest = 0;
  const auto bad = [&](const std::string& expected) {
    return Corrupt(path + ": line " + std::to_string(number) + ": expected " + expected);
  };
  for (size_t end; (end = text.find('\n')) != std::string_view::npos; text.remove_prefix(end + 1)) {
    const std::string_view line = text.substr(0, end);
    if (++number == 1) {
      if (line != kHeader) return bad(std::string(kHeader));
      continue;
    }
    const std::vector<std::string_view> cells = CsvCells(line);
    if (cells.size() != 3) return bad("3 cells, found " + std::to_string(cells.size()));
    const double label = CsvNumber(cells[0]), weight = CsvNumber(cells[1]);
    const double margin = CsvNumber(cells[2]);
    if (label != 0 && label != 1) return bad("a label of 0 or 1");
    if (!(weight >= 0 && weight <= 1e30)) return bad("a weight of at least 0");
    if (std::isnan(margin)) return bad("a number as margin");
    if (!budget.Take(2 * sizeof(float) + 1)) return budget.Exceeded(path);
    constexpr double kMost = 3e38;
    predictions.labels.push_back(label == 1);
    predictions.weights.push_back(static_cast<float>(weight));
    predictions.margins.push_back(static_cast<float>(std::clamp(margin, -kMost, kMost)));
    has_weights = has_weights || weight != 1;
    digest = Mix64(digest ^ (std::bit_cast<uint32_t>(predictions.weights.back()) * 2ull +
                             predictions.labels.back() + 1));
  }
  if (predictions.rows() == 0) return Corrupt(path + ": expected rows of predictions, found none");
  if (!has_weights) predictions.weights.clear();
  predictions.test_set = digest;
  return predictions;
}

bool AreComparable(const Predictions& a, const Predictions& b) {
  return a.rows() == b.rows() && a.rows() > 1 && a.test_set == b.test_set;
}

Difference LoglossDifference(const Predictions& a, const Predictions& b) {
  // A weighted mean is a ratio of sums; its error is that of the weighted residuals.
  const auto weight = [&](size_t i) { return a.weights.empty() ? 1.0 : double{a.weights[i]}; };
  const auto difference = [&](size_t i) {
    return Logloss(b.margins[i], b.labels[i]) - Logloss(a.margins[i], a.labels[i]);
  };
  double weights = 0, sum = 0;
  for (size_t i = 0; i < a.rows(); ++i) {
    weights += weight(i);
    sum += weight(i) * difference(i);
  }
  if (!(weights > 0)) return {};
  const double mean = sum / weights;
  double squares = 0;
  for (size_t i = 0; i < a.rows(); ++i) {
    const double residual = weight(i) * (difference(i) - mean);
    squares += residual * residual;
  }
  const auto n = static_cast<double>(a.rows());
  return WithError(mean, std::sqrt(squares * n / (n - 1)) / weights);
}

std::optional<Difference> AucDifference(const Predictions& a, const Predictions& b) {
  const auto positives = std::count(a.labels.begin(), a.labels.end(), uint8_t{1});
  const auto rows = static_cast<ptrdiff_t>(a.rows());
  if (!a.weights.empty() || positives < 2 || rows - positives < 2) return std::nullopt;
  const Placements of_a = PlacementsOf(a), of_b = PlacementsOf(b);
  return WithError(of_b.auc - of_a.auc, std::sqrt(VarianceOfMean(of_a.positives, of_b.positives) +
                                                  VarianceOfMean(of_a.negatives, of_b.negatives)));
}

}  // namespace millrace::report
