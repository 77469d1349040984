// SPDX-License-Identifier: Apache-2.0
// The update rule of a sparse model and its parameters.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "io/base/status.h"
#include "io/rows/row_decoder.h"
#include "io/state/state_fields.h"
#include "sparse/key_groups.h"
#include "sparse/update_rules.h"

namespace millrace::sparse {

enum class Rule { kSgd, kAdaGrad, kFtrl, kAdam };
inline constexpr std::array kRules = {Rule::kSgd, Rule::kAdaGrad, Rule::kFtrl, Rule::kAdam};
const char* RuleName(Rule rule);
// Accepts "sgd", "adagrad", "ftrl", "adam".
Result<Rule> RuleFromName(std::string_view name);

enum class Decay {
  kConstant,
  kInverseSqrt,  // rate / sqrt(t), t = 1, 2, ... counting steps
};
// Accepts "constant", "sqrt".
Result<Decay> DecayFromName(std::string_view name);

struct UpdateOptions {
  Rule rule = Rule::kFtrl;
  double rate = 0;  // 0: the rule's default
  Decay decay = Decay::kConstant;
  double l1 = 0;  // FTRL only
  double l2 = 0;
  double factor_l2 = 0;  // of the factors of a factorization machine; l1 and l2 are of its weights
  double ftrl_beta = 1;
  double adagrad_epsilon = 1e-6;
  double adagrad_initial = 0;  // of the sum of squares, as if seen before the first gradient
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  // Train on values divided by the largest one of their feature so far (value_scale.h), so that the
  // units of a column do not matter. l1 and l2 then penalise the weights of normalised values.
  bool normalize = false;
  // The caller wants values as they are: a run that continues from this one does not normalise
  // either. Without both flags all values were ones as far as the run knew.
  bool raw_values = false;
  // Subtracted from the values of these features before all else (io/rows/centered_rows.h): the
  // intercept is that of centered rows. Model files have the centers, too.
  std::vector<io::ValueCenter> centers = {};
  // Keys with a rate, l1 and l2 of their own, for the weights; factors have those of the run.
  KeyGroups key_groups = {};

  Status Validate() const;
  double Rate() const;  // `rate`, or the default if it is 0
};

// An error that names the option, its range and the value found.
Status CheckRange(const char* name, double value, double low, double high);

// The gradient that a rule gets for a step: AdaGrad and FTRL, which adapt to its scale, that of the
// summed loss, in which the weight of an example multiplies its loss; SGD and Adam the same divided
// by the number of rows, whatever their weights, so that an example of weight 2 moves the model as
// far as two.
enum class GradientScale { kMean, kSum };
GradientScale GradientScaleOf(Rule rule);

// The options of the intercept, which is not regularised.
UpdateOptions InterceptOptions(UpdateOptions options);

// The options of the weights of a group of keys; 0: the same.
UpdateOptions GroupOptions(UpdateOptions options, size_t group);

// The options of the factors: the same rule without L1, with factor_l2. Sums of squares of AdaGrad
// start at 1 at least: the gradients of initial factors are tiny, and a first step as large as the
// rate would be noise.
UpdateOptions FactorUpdateOptions(UpdateOptions options);

// "key:center key:center", keys ascending.
std::string CentersText(const std::vector<io::ValueCenter>& centers);
Result<std::vector<io::ValueCenter>> CentersFrom(const std::string& text);

// Named fields for files and for the wire. They contain Rate(), never 0. A field of factor_l2 is
// only there if it is not 0, those of key groups if there are some.
void AddUpdateOptions(const UpdateOptions& options, io::StateFields& fields);
Result<UpdateOptions> UpdateOptionsFrom(const io::StateFields& fields);

// The rule's parameters in step `t` = 1, 2, ...
SgdParams SgdParamsAt(const UpdateOptions& options, uint64_t t);
AdaGradParams AdaGradParamsAt(const UpdateOptions& options, uint64_t t);
FtrlParams FtrlParamsAt(const UpdateOptions& options, uint64_t t);
AdamParams AdamParamsAt(const UpdateOptions& options, uint64_t t);

}  // namespace millrace::sparse
