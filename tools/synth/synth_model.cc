// SPDX-License-Identifier: Apache-2.0
#include "tools/synth/synth_model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <utility>

#include "io/base/status.h"
#include "tools/synth/portable_math.h"

namespace millrace::synth {
namespace {

constexpr double kHalfSignal = 1e-5;
// The same for models with interactions, of weights and factors.
constexpr double kHalfSignalBeside = 1e-3;
constexpr double kHalfSignalFactors = 4e-3;
constexpr uint64_t kMaxRank = 64;
constexpr uint64_t kMaxFeatures = uint64_t{1} << 62;
constexpr uint64_t kMaxFields = 10'000;
constexpr uint64_t kMinPilotRows = 1 << 12, kMaxPilotRows = 1 << 17;
constexpr uint64_t kPilotKeys = 39 * kMaxPilotRows;  // fewer rows for more fields
constexpr size_t kPilotGroup = 64;
constexpr double kMaxScale = 8;  // reached only if the features have almost no variation
constexpr int kBisections = 50;

enum Stream : uint64_t { kWeights = 10, kScatters = 11, kFactors = 12 };

std::string Text(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", number);
  return text;
}

// The sum of four uniform numbers (Irwin-Hall distribution), scaled to mean 0 and variance 1.
double GaussFromBits(uint64_t bits) {
  const uint64_t sum =
      (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
  constexpr double kMean = 2 * 65535.0;
  constexpr double kDeviation = 37837.22779;  // 65536 / sqrt(3)
  return (static_cast<double>(sum) - kMean) * (1 / kDeviation);
}

double SigmaOf(const ZipfBucket& bucket, uint64_t cardinality, double half_signal) {
  const double p = bucket.share / static_cast<double>(bucket.width);
  // The square root is the only function of libm whose bits IEEE 754 fixes.
  return (4 + Log2(static_cast<double>(cardinality))) * std::sqrt(p / (p + half_signal));
}

// The x in [low, high] where the increasing `f` crosses `target`.
template <typename F>
double Solve(double low, double high, double target, F f) {
  for (int step = 0; step < kBisections; ++step) {
    const double middle = (low + high) / 2;
    (f(middle) < target ? low : high) = middle;
  }
  return (low + high) / 2;
}

// The margins of a sample, sorted and averaged in groups, for calibration.
class Pilot {
 public:
  explicit Pilot(std::vector<double> margins) {
    std::sort(margins.begin(), margins.end());
    for (size_t i = 0; i + kPilotGroup <= margins.size(); i += kPilotGroup) {
      double sum = 0;
      for (size_t j = 0; j < kPilotGroup; ++j) sum += margins[i + j];
      groups_.push_back(sum / kPilotGroup);
    }
  }

  double BiasFor(double scale, double positives) const {
    return Solve(-200, 200, positives, [&](double bias) { return Positives(scale, bias); });
  }

  // The mean loss of a predictor that knows the model.
  double BayesLogLoss(double scale, double bias) const {
    double sum = 0;
    for (const double group : groups_) {
      const double margin = scale * group + bias;
      const double p = Sigmoid(margin);
      sum += p * LogLoss(margin, true) + (1 - p) * LogLoss(margin, false);
    }
    return sum / static_cast<double>(groups_.size());
  }

 private:
  double Positives(double scale, double bias) const {
    double sum = 0;
    for (const double group : groups_) sum += Sigmoid(scale * group + bias);
    return sum / static_cast<double>(groups_.size());
  }

  std::vector<double> groups_;
};

constexpr uint64_t kCriteoSizes[] = {
    // counts, bucketed
    42, 75, 61, 35, 98, 70, 55, 38, 64, 11, 30, 19, 46,
    // categorical
    1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992,
    5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572};

std::vector<double> CriteoSizes(uint64_t fields) {
  std::vector<double> sizes;
  for (uint64_t i = 0; i < fields; ++i)
    sizes.push_back(static_cast<double>(kCriteoSizes[i % std::size(kCriteoSizes)]));
  return sizes;
}

std::vector<double> ToPower(std::vector<double> sizes, double power) {
  for (double& size : sizes) size = Pow(size, power);
  return sizes;
}

double Sum(const std::vector<double>& sizes) {
  double sum = 0;
  for (const double size : sizes) sum += size;
  return sum;
}

// The sizes to that power below 1 whose sum is `total`.
std::vector<double> Compressed(const std::vector<double>& sizes, double total) {
  double low = 0, high = 1;
  for (int step = 0; step < 60; ++step) {
    const double middle = (low + high) / 2;
    (Sum(ToPower(sizes, middle)) < total ? low : high) = middle;
  }
  return ToPower(sizes, low);
}

std::vector<double> Stretched(std::vector<double> sizes, double total) {
  const double factor = total / Sum(sizes);
  for (double& size : sizes) size *= factor;
  return sizes;
}

// Corrects the sum after rounding, on the largest fields first.
void SumTo(uint64_t total, std::vector<uint64_t>& counts) {
  std::vector<size_t> order(counts.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return counts[a] > counts[b]; });
  uint64_t sum = 0;
  for (const uint64_t count : counts) sum += count;
  if (sum < total) counts[order[0]] += total - sum;
  for (const size_t i : order) {
    const uint64_t cut = std::min(counts[i] - 1, sum > total ? sum - total : 0);
    counts[i] -= cut;
    sum -= cut;
  }
}

}  // namespace

std::vector<uint64_t> FieldCardinalities(uint64_t num_features, uint64_t fields) {
  CHECK(fields > 0 && num_features >= fields);
  const std::vector<double> model = CriteoSizes(fields);
  const auto total = static_cast<double>(num_features);
  const auto sizes = total < Sum(model) ? Compressed(model, total) : Stretched(model, total);
  std::vector<uint64_t> counts;
  for (const double size : sizes)
    counts.push_back(std::max<uint64_t>(1, static_cast<uint64_t>(size + 0.5)));
  SumTo(num_features, counts);
  return counts;
}

Status SynthOptions::Validate() const {
  if (fields == 0 || fields > kMaxFields) {
    return Invalid("--fields=" + std::to_string(fields) + ": expected 1 to " +
                   std::to_string(kMaxFields));
  }
  if (num_features < fields || num_features > kMaxFeatures) {
    return Invalid("--num_features=" + std::to_string(num_features) +
                   ": expected at least one for each of the " + std::to_string(fields) +
                   " fields and at most 2^62");
  }
  if (!(zipf >= 0 && zipf <= 5)) return Invalid("--zipf=" + Text(zipf) + ": expected 0 to 5");
  if (!(positives >= 0.001 && positives <= 0.999)) {
    return Invalid("--positives=" + Text(positives) + ": expected 0.001 to 0.999");
  }
  if (!(bayes_logloss >= 0.01 && bayes_logloss <= 0.7)) {
    return Invalid("--bayes_logloss=" + Text(bayes_logloss) + ": expected 0.01 to 0.7");
  }
  if (interactions > kMaxRank) {
    return Invalid("--interactions=" + std::to_string(interactions) + ": expected at most " +
                   std::to_string(kMaxRank));
  }
  if (interactions > 0 && fields < kInteractingFields) {
    return Invalid("--interactions=" + std::to_string(interactions) + ": expected --fields of " +
                   std::to_string(kInteractingFields) + " or more, found " +
                   std::to_string(fields));
  }
  return {};
}

SynthModel::SynthModel(const SynthOptions& options)
    : seed_(options.seed),
      weight_seed_(DeriveSeed(options.seed, kWeights)),
      cardinalities_(FieldCardinalities(options.num_features, options.fields)),
      rank_(options.interactions),
      field_factors_(options.field_factors) {
  uint64_t begin = 0;
  for (uint64_t f = 0; f < options.fields; ++f) {
    fields_.push_back(MakeField(f, begin, options));
    begin += cardinalities_[f];
  }
  for (size_t i = 0; rank_ > 0 && i < kInteractingFields; ++i) {
    factors_.push_back(MakeFactors(i * fields_.size() / kInteractingFields, options));
  }
  Calibrate(options);
}

SynthModel::Field SynthModel::MakeField(uint64_t index, uint64_t begin,
                                        const SynthOptions& options) const {
  const std::vector<ZipfBucket> buckets = ZipfBuckets(cardinalities_[index], options.zipf);
  const double half_signal = options.interactions > 0 ? kHalfSignalBeside : kHalfSignal;
  const Scatter scatter(cardinalities_[index], DeriveSeed(seed_, kScatters, index));
  std::vector<double> shares;
  std::vector<Outcome> outcomes;
  for (const ZipfBucket& bucket : buckets) {
    shares.push_back(bucket.share);
    Outcome outcome = {bucket.first, bucket.width, 0,
                       SigmaOf(bucket, cardinalities_[index], half_signal)};
    if (bucket.width == 1) {
      outcome.first = begin + scatter(bucket.first);
      outcome.weight = outcome.sigma * Gauss(outcome.first);
    }
    outcomes.push_back(outcome);
  }
  return {begin, scatter, AliasTable(shares), std::move(outcomes)};
}

// v = sqrt(a) g - a m, where g is standard normal, a = p / (p + kHalfSignalFactors) for a value
// with the share p, and m makes the mean over the values 0.
SynthModel::Factors SynthModel::MakeFactors(size_t field, const SynthOptions& options) const {
  Factors made = {.field = field};
  std::vector<double> shares, a;
  double sum = 0;
  for (const ZipfBucket& bucket : ZipfBuckets(cardinalities_[field], options.zipf)) {
    if (bucket.width > 1) break;
    shares.push_back(bucket.share);
    a.push_back(bucket.share / (bucket.share + kHalfSignalFactors));
    sum += shares.back() * a.back();
  }
  made.values = a.size();
  const size_t width = rank_ * (field_factors_ ? kInteractingFields : 1);
  made.numbers.resize(made.values * width);
  for (size_t i = 0; i < width; ++i) {
    const uint64_t seed = DeriveSeed(seed_, kFactors, i);
    double mean = 0;
    for (size_t v = 0; v < made.values; ++v) {
      const uint64_t key = fields_[field].outcomes[v].first;
      const double number = std::sqrt(a[v]) * GaussFromBits(Mix64(Mix64(key + seed)));
      made.numbers[v * width + i] = number;
      mean += shares[v] * number;
    }
    for (size_t v = 0; v < made.values; ++v) made.numbers[v * width + i] -= a[v] * mean / sum;
  }
  return made;
}

double SynthModel::Interactions(const SynthRow& row) const {
  // Of the field factors_[i], for its interaction with factors_[j]; null: none.
  const auto numbers = [&](size_t i, size_t j) -> const double* {
    const Factors& factors = factors_[i];
    const size_t value = row.outcomes[factors.field];
    if (value >= factors.values) return nullptr;
    const size_t width = rank_ * (field_factors_ ? kInteractingFields : 1);
    return factors.numbers.data() + value * width + (field_factors_ ? j * rank_ : 0);
  };
  double sum = 0;
  for (size_t i = 0; i < factors_.size(); ++i) {
    for (size_t j = i + 1; j < factors_.size(); ++j) {
      const double *a = numbers(i, j), *b = numbers(j, i);
      for (size_t k = 0; a && b && k < rank_; ++k) sum += a[k] * b[k];
    }
  }
  return sum;
}

double SynthModel::Gauss(uint64_t key) const {
  return GaussFromBits(Mix64(Mix64(key + weight_seed_)));
}

// Draws in two passes, because a branch on "is this outcome in the tail" would be unpredictable.
// The first pass collects the tail outcomes without a branch, the second does the expensive work on
// them.
double SynthModel::DrawKeys(Random& random, SynthRow& row) const {
  double sum = 0;
  size_t tails = 0;
  for (size_t f = 0; f < fields_.size(); ++f) {
    const Field& field = fields_[f];
    row.outcomes[f] = field.table.Pick(random.Next());
    const Outcome& outcome = field.outcomes[row.outcomes[f]];
    row.keys[f] = outcome.first;
    sum += outcome.weight;
    row.tails[tails] = {static_cast<uint32_t>(f), &outcome};
    tails += outcome.width > 1 ? 1 : 0;
  }
  for (size_t t = 0; t < tails; ++t) sum += DrawTail(random, row.tails[t], row.keys);
  return sum;
}

double SynthModel::DrawTail(Random& random, const Tail& tail, std::vector<uint64_t>& keys) const {
  const Field& field = fields_[tail.field];
  const uint64_t rank = tail.outcome->first + random.Below(tail.outcome->width);
  const uint64_t key = field.begin + field.scatter(rank);
  keys[tail.field] = key;
  return tail.outcome->sigma * Gauss(key);
}

void SynthModel::Draw(Part part, uint64_t index, SynthRow& row) const {
  Random random(DeriveSeed(seed_, static_cast<uint64_t>(part), index));
  row.keys.resize(fields_.size());
  row.tails.resize(fields_.size());
  row.outcomes.resize(fields_.size());
  const double linear = DrawKeys(random, row);
  const double interactions = rank_ > 0 ? strength_ * Interactions(row) : 0;
  row.margin = bias_ + scale_ * (linear + interactions);
  row.linear_margin = linear_bias_ + linear_scale_ * linear;
  row.label = random.Uniform() < Sigmoid(row.margin);
}

std::vector<SynthModel::PilotRow> SynthModel::DrawPilot(const SynthOptions& options) {
  std::vector<PilotRow> rows;
  SynthRow row;
  const uint64_t count = std::clamp(kPilotKeys / options.fields, kMinPilotRows, kMaxPilotRows);
  for (uint64_t i = 0; i < count; ++i) {
    Draw(Part::kPilot, i, row);  // bias and linear_bias are 0, the scales 1
    rows.push_back({row.linear_margin, rank_ > 0 ? Interactions(row) : 0, row.margin});
  }
  if (rank_ == 0) return rows;
  const auto deviation = [&](double PilotRow::*part) {
    double sum = 0, squares = 0;
    for (const PilotRow& r : rows) sum += r.*part;
    const double mean = sum / static_cast<double>(count);
    for (const PilotRow& r : rows) squares += (r.*part - mean) * (r.*part - mean);
    return std::sqrt(squares);
  };
  const double size = deviation(&PilotRow::interactions);
  strength_ = size > 0 ? deviation(&PilotRow::linear) / size : 0;
  for (PilotRow& r : rows) r.margin = r.linear + strength_ * r.interactions;
  return rows;
}

// Newton's method for the mean loss of bias + scale * linear, with known probabilities.
void SynthModel::CalibrateLinear(const std::vector<PilotRow>& rows) {
  linear_bias_ = bias_;
  linear_scale_ = scale_;
  constexpr int kSteps = 20;
  for (int step = 0; rank_ > 0 && step < kSteps; ++step) {
    double gb = 0, gs = 0, bb = 1e-9, bs = 0, ss = 1e-9;
    for (const PilotRow& r : rows) {
      const double q = Sigmoid(linear_bias_ + linear_scale_ * r.linear);
      const double error = q - Sigmoid(bias_ + scale_ * r.margin), curve = q * (1 - q);
      gb += error;
      gs += error * r.linear;
      bb += curve;
      bs += curve * r.linear;
      ss += curve * r.linear * r.linear;
    }
    const double determinant = bb * ss - bs * bs;
    if (!(determinant > 0)) return;
    linear_bias_ -= (ss * gb - bs * gs) / determinant;
    linear_scale_ -= (bb * gs - bs * gb) / determinant;
  }
}

void SynthModel::Calibrate(const SynthOptions& options) {
  const std::vector<PilotRow> rows = DrawPilot(options);
  std::vector<double> margins;
  for (const PilotRow& row : rows) margins.push_back(row.margin);
  const Pilot pilot(std::move(margins));
  // The loss falls with the scale.
  scale_ = Solve(0, kMaxScale, -options.bayes_logloss, [&](double scale) {
    return -pilot.BayesLogLoss(scale, pilot.BiasFor(scale, options.positives));
  });
  bias_ = pilot.BiasFor(scale_, options.positives);
  CalibrateLinear(rows);
}

}  // namespace millrace::synth
