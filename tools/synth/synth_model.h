// SPDX-License-Identifier: Apache-2.0
// The hidden model of `millrace-records synth`: it draws the features of a row and the probability
// that its label is 1.
//
//   rank_f  ~ Zipf                             in each field f, independently
//   key_f   = begin_f + scatter_f(rank_f)      popular values lie anywhere in the field's range
//   w(key)  = scale * sigma(field, p) * g(key)
//   margin  = bias + sum_f w(key_f)            P(label = 1) = sigmoid(margin)
//
// g is a hash of seed and key with a standard normal distribution; the model has no array of
// weights. sigma = (4 + log2 n) sqrt(p / (p + kHalfSignal)) for a value in a share p of all rows,
// in a field of n values. So every field has signal, and fields with more values have more. Most of
// the signal is on values that are frequent enough to be learned from a few million rows; the rest
// keeps a learner from the optimum. bias and scale are fitted to a sample, so that the share of
// positives and the optimal logloss match the options.
//
// With `interactions` = K, a few fields (kInteractingFields, evenly spaced) also interact in pairs:
//
//   margin = bias + scale * (sum_f w(key_f) + strength * sum_{f<g} <v(key_f), v(key_g)>)
//
// with K planted factors v of each value, or with `field_factors` K of each value and other field:
// <v_g(key_f), v_f(key_g)>. The mean of a field's factors is 0, so that the interactions have no
// linear part: they are uncorrelated with every sum of weights. Both parts of the margin have the
// same variance. Factors, and weights too, are large only for values frequent enough that a few
// million rows determine them: a learner can come near the optimum.
//
// Row i of a part depends only on (seed, part, i), never on the number of rows, shards or threads,
// and has the same bits on every machine.
#pragma once

#include <cstdint>
#include <vector>

#include "io/base/random.h"
#include "io/base/status.h"
#include "tools/synth/zipf.h"

namespace millrace::synth {

// The number of values of each field: `fields` numbers of at least 1 with the sum `num_features`,
// which is at least `fields`. They follow the public Criteo display-advertising data: 13 bucketed
// counts with tens of values, then 26 categorical fields with 3 to 10 million. Other numbers of
// fields repeat or truncate that list. For a smaller sum a power below 1 compresses the sizes, so
// that a small model still has many fields with several values; for a larger sum they are scaled
// up.
std::vector<uint64_t> FieldCardinalities(uint64_t num_features, uint64_t fields);

struct SynthOptions {
  uint64_t num_features = 33'762'578;
  uint64_t fields = 39;
  double zipf = 1.05;
  uint64_t seed = 1;
  double positives = 0.25;
  double bayes_logloss = 0.444;
  uint64_t interactions = 0;   // factors of a value; 0: a linear model
  bool field_factors = false;  // factors of a value and other field

  Status Validate() const;
};

constexpr size_t kInteractingFields = 8;

enum class Part : uint64_t { kTrain = 1, kTest = 2, kPilot = 3 };

// The outcome of a draw from a field: one key, or a range of equally likely ranks.
struct SynthOutcome {
  uint64_t first;  // key if width is 1, else rank
  uint64_t width;
  double weight;  // of the key; 0 for ranks
  double sigma;
};

struct SynthRow {
  std::vector<uint64_t> keys;  // one per field, ascending
  double margin = 0;
  double linear_margin = 0;  // the best prediction from the linear part alone
  bool label = false;

  // Scratch: the fields whose outcome is a range of ranks.
  struct Tail {
    uint32_t field;
    const SynthOutcome* outcome;
  };
  std::vector<Tail> tails;
  std::vector<uint32_t> outcomes;  // scratch: number of the outcome, by field
};

// Immutable: several threads may draw from one model.
class SynthModel {
 public:
  // `options` are valid.
  explicit SynthModel(const SynthOptions& options);

  // Replaces `row`.
  void Draw(Part part, uint64_t index, SynthRow& row) const;

  const std::vector<uint64_t>& cardinalities() const { return cardinalities_; }
  double bias() const { return bias_; }
  double scale() const { return scale_; }
  double strength() const { return strength_; }  // of the interactions

 private:
  using Outcome = SynthOutcome;
  using Tail = SynthRow::Tail;
  struct Field {
    uint64_t begin;  // key
    Scatter scatter;
    AliasTable table;
    std::vector<Outcome> outcomes;
  };

  // The factors of one field's frequent values, each those of one other field after the other.
  struct Factors {
    size_t field = 0;
    size_t values = 0;  // outcomes from the first one on; others have no factors
    std::vector<double> numbers = {};
  };
  struct PilotRow {
    double linear, interactions, margin;
  };

  Field MakeField(uint64_t index, uint64_t begin, const SynthOptions& options) const;
  Factors MakeFactors(size_t field, const SynthOptions& options) const;
  double Gauss(uint64_t key) const;
  // Draws the keys and returns the sum of their weights before scale and bias.
  double DrawKeys(Random& random, SynthRow& row) const;
  double DrawTail(Random& random, const Tail& tail, std::vector<uint64_t>& keys) const;
  double Interactions(const SynthRow& row) const;
  std::vector<PilotRow> DrawPilot(const SynthOptions& options);
  void Calibrate(const SynthOptions& options);
  void CalibrateLinear(const std::vector<PilotRow>& rows);

  uint64_t seed_;
  uint64_t weight_seed_;
  std::vector<uint64_t> cardinalities_;
  std::vector<Field> fields_;
  size_t rank_;  // of the interactions
  bool field_factors_;
  std::vector<Factors> factors_;  // of the interacting fields
  double bias_ = 0;
  double scale_ = 1;
  double strength_ = 0;
  // linear_margin = linear_bias_ + linear_scale_ * linear part
  double linear_bias_ = 0, linear_scale_ = 1;
};

}  // namespace millrace::synth
