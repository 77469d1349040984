// SPDX-License-Identifier: Apache-2.0
// The update rule of dense parameters (the layers of a net) and its parameters.
#pragma once

#include <cstdint>
#include <string_view>

#include "io/base/status.h"
#include "io/state/state_fields.h"

namespace millrace::sparse {

enum class DenseRule { kSgd, kMomentum, kAdam };
const char* DenseRuleName(DenseRule rule);
// Accepts "sgd", "momentum", "adam".
Result<DenseRule> DenseRuleFromName(std::string_view name);

struct DenseOptions {
  DenseRule rule = DenseRule::kMomentum;
  double rate = 0;  // 0: the rule's default
  double momentum = 0.9;
  double weight_decay = 0;   // L2: added to the gradient as weight_decay * w
  uint64_t decay_every = 0;  // steps after which the rate is multiplied by decay_factor; 0: never
  double decay_factor = 0.1;
  uint64_t fall_steps = 0;  // steps of an additional linear decay of the rate to 0; 0: none
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;

  Status Validate() const;
  double Rate() const;                   // `rate`, or the default if it is 0
  double RateAt(uint64_t t) const;       // in step t = 1, 2, ...
  size_t state_planes() const;           // floats of optimizer state per weight
  void AddTo(io::StateFields& f) const;  // as text, for checkpoints and for the wire
  // Reads what AddTo wrote and validates it.
  static Result<DenseOptions> From(const io::StateFields& fields);

  bool operator==(const DenseOptions&) const = default;
};

}  // namespace millrace::sparse
