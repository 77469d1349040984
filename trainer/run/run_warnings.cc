// SPDX-License-Identifier: Apache-2.0
#include "trainer/run/run_warnings.h"

#include <cmath>
#include <cstdio>

#include "io/base/printable.h"

namespace millrace::trainer {
namespace {

constexpr double kLowCalibration = 0.8, kHighCalibration = 1.25;
// Some keys of new data are always new. With L1 most weights may be 0.
constexpr double kUnknownEntries = 0.3, kUnknownEntriesPruned = 0.95;
// An evaluation is no better or worse than another within this share of its logloss.
constexpr double kLoglossTolerance = 0.002;
// Test loss divided by the loss of rows that the model has seen in earlier epochs.
constexpr double kOverfit = 1.2;
constexpr double kTinyValues = 0.01;  // share of all values

template <typename... Args>
std::string Text(const char* format, Args... args) {
  char text[400];
  std::snprintf(text, sizeof text, format, args...);
  return text;
}

double Entropy(double share) {
  return -share * std::log(share) - (1 - share) * std::log(1 - share);
}

std::string OneClass(const char* labels, double positive_share, const char* consequence) {
  return Text("%s are all %s: %s", labels, positive_share > 0 ? "positive" : "negative",
              consequence);
}

std::string TrainingLabels(const RunFacts& facts) {
  if (!(facts.label_weight > 0)) return "";
  const double share = facts.positive_weight / facts.label_weight;
  if (share <= 0 || share >= 1) {
    return OneClass(facts.partial ? "the labels of worker 0's part" : "the training labels", share,
                    "the model cannot learn to tell classes apart");
  }
  const double entropy = Entropy(share);
  if (!(facts.mean_loss > entropy)) return "";
  return Text(
      "the progressive loss %.5f is above %.5f, which always predicting the share of positives in "
      "%s (%.4g) gives: another learning_rate, or the features need a look",
      facts.mean_loss, entropy, facts.partial ? "worker 0's part" : "the training data", share);
}

// Recall is not defined without positives, the area under the curve without either class.
std::string TestLabels(const MetricsRow& row) {
  if (!std::isnan(row.Metric("auc")) || std::isnan(row.Metric("logloss"))) return "";
  return OneClass("the test labels", std::isnan(row.Metric("recall")) ? 0 : 1,
                  "auc, ne and calibration are not defined");
}

std::string NormalizedEntropy(const MetricsRow& row) {
  const double ne = row.Metric("ne");
  if (!(ne > 1.0005)) return "";  // 1.000 is as good as the share of positives
  return Text(
      "NE %.4g is above 1: on the test data the model is worse than always predicting its share "
      "of positives",
      ne);
}

std::string Calibration(const MetricsRow& row) {
  const double calibration = row.Metric("calibration");
  if (std::isnan(calibration)) return "";
  if (calibration >= kLowCalibration && calibration <= kHighCalibration) return "";
  return Text(
      "calibration %.4g is outside %.2g to %.4g: for every 100 positives of the test data the "
      "model predicts %.4g",
      calibration, kLowCalibration, kHighCalibration, 100 * calibration);
}

std::string UnknownKeys(const RunFacts& facts) {
  const double limit = facts.prunes_weights ? kUnknownEntriesPruned : kUnknownEntries;
  if (facts.checked_examples == 0 || facts.unknown_entries < limit) return "";
  return Text(
      "%.1f %% of the keys and %.1f %% of the entries of the first %llu test examples have no "
      "weight in the model: do training and test data make keys in the same way?",
      100 * facts.unknown_keys, 100 * facts.unknown_entries,
      static_cast<unsigned long long>(facts.checked_examples));
}

std::string Overfitting(const RunFacts& facts) {
  const MetricsRow& row = *facts.last_row;
  const double logloss = row.Metric("logloss");
  if (row.epoch <= 1) return "";
  const bool rose = logloss > facts.lowest_logloss * (1 + kLoglossTolerance);
  if (!rose || !(row.loss < facts.lowest_logloss_loss)) {
    if (!(logloss > kOverfit * facts.last_epoch_loss)) return "";
    return Text(
        "the model overfits: test logloss %.5f, progressive loss of the last epoch %.5f: fewer "
        "epochs, a lower learning_rate, or early_stop",
        logloss, facts.last_epoch_loss);
  }
  return Text(
      "the model overfits: since step %llu the test logloss rose from %.5f to %.5f, while the "
      "progressive loss fell from %.5f to %.5f: fewer epochs, the best model (save_best), or more "
      "l2",
      static_cast<unsigned long long>(facts.lowest_logloss_step), facts.lowest_logloss, logloss,
      facts.lowest_logloss_loss, row.loss);
}

std::string HugeValues(const RunFacts& facts) {
  if (facts.huge_values == 0) return "";
  return Text(
      "%llu values of the training data are beyond %.2g (the first: %.4g of feature %s): training "
      "cannot scale them; change the unit of these columns, or leave out what stands for a missing "
      "value",
      static_cast<unsigned long long>(facts.huge_values), static_cast<double>(facts.value_limit),
      static_cast<double>(facts.first_huge), facts.first_huge_key.c_str());
}

// Single ones are harmless. Columns of them are ignored.
std::string TinyValues(const RunFacts& facts) {
  if (static_cast<double>(facts.tiny_values) <= kTinyValues * static_cast<double>(facts.values)) {
    return "";
  }
  return Text(
      "%llu of %llu values of the training data are closer to 0 than %.2g: columns of such values "
      "have no effect; change their unit",
      static_cast<unsigned long long>(facts.tiny_values),
      static_cast<unsigned long long>(facts.values), 1 / static_cast<double>(facts.value_limit));
}

std::string Corruption(const RunFacts& facts) {
  if (facts.corrupt_regions == 0) return "";
  return "skipped " + std::to_string(facts.corrupt_regions) + " corrupt region" +
         (facts.corrupt_regions == 1 ? "" : "s") + ", " + std::to_string(facts.corrupt_bytes) +
         " bytes; the first: " + Printable(facts.first_corruption);
}

}  // namespace

std::vector<std::string> RunWarnings(const RunFacts& facts) {
  std::vector<std::string> warnings = {Corruption(facts), HugeValues(facts), TinyValues(facts),
                                       TrainingLabels(facts)};
  if (facts.last_row) {
    warnings.push_back(TestLabels(*facts.last_row));
    warnings.push_back(NormalizedEntropy(*facts.last_row));
    warnings.push_back(Calibration(*facts.last_row));
    warnings.push_back(UnknownKeys(facts));
    warnings.push_back(Overfitting(facts));
  }
  std::erase(warnings, "");
  return warnings;
}

}  // namespace millrace::trainer
