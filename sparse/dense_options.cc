// SPDX-License-Identifier: Apache-2.0
#include "sparse/dense_options.h"

#include <array>
#include <cmath>
#include <string>

#include "sparse/update_options.h"

namespace millrace::sparse {
namespace {

constexpr std::array kDenseRules = {DenseRule::kSgd, DenseRule::kMomentum, DenseRule::kAdam};

}  // namespace

const char* DenseRuleName(DenseRule rule) {
  switch (rule) {
    case DenseRule::kSgd:
      return "sgd";
    case DenseRule::kMomentum:
      return "momentum";
    case DenseRule::kAdam:
      return "adam";
  }
  return "unknown";
}

Result<DenseRule> DenseRuleFromName(std::string_view name) {
  for (const DenseRule rule : kDenseRules) {
    if (name == DenseRuleName(rule)) return rule;
  }
  return Invalid("optimizer: expected sgd, momentum or adam, found '" + std::string(name) + "'");
}

double DenseOptions::Rate() const {
  if (rate > 0) return rate;
  switch (rule) {
    case DenseRule::kSgd:
      return 0.1;
    case DenseRule::kMomentum:
      return 0.01;
    case DenseRule::kAdam:
      return 0.001;
  }
  return 0;
}

double DenseOptions::RateAt(uint64_t t) const {
  double now = Rate();
  if (decay_every > 0) {
    const uint64_t decays = (t - 1) / decay_every;
    now *= std::pow(decay_factor, static_cast<double>(decays));
  }
  if (fall_steps == 0) return now;
  if (t > fall_steps) return 0;
  return now * static_cast<double>(fall_steps - (t - 1)) / static_cast<double>(fall_steps);
}

size_t DenseOptions::state_planes() const {
  switch (rule) {
    case DenseRule::kSgd:
      return 0;
    case DenseRule::kMomentum:
      return 1;
    case DenseRule::kAdam:
      return 2;
  }
  return 0;
}

Status DenseOptions::Validate() const {
  RETURN_IF_ERROR(CheckRange("learning_rate", rate, 0, 1e6));
  RETURN_IF_ERROR(CheckRange("momentum", momentum, 0, 1 - 1e-9));
  RETURN_IF_ERROR(CheckRange("weight_decay", weight_decay, 0, 1e6));
  RETURN_IF_ERROR(CheckRange("decay_factor", decay_factor, 1e-9, 1));
  RETURN_IF_ERROR(CheckRange("adam_beta1", adam_beta1, 0, 1 - 1e-9));
  RETURN_IF_ERROR(CheckRange("adam_beta2", adam_beta2, 0, 1 - 1e-9));
  return CheckRange("adam_epsilon", adam_epsilon, 1e-30, 1e6);
}

void DenseOptions::AddTo(io::StateFields& f) const {
  f.Add("dense.rule", DenseRuleName(rule));
  f.AddDouble("dense.rate", Rate());
  f.AddDouble("dense.momentum", momentum);
  f.AddDouble("dense.weight_decay", weight_decay);
  f.AddUint("dense.decay_every", decay_every);
  f.AddDouble("dense.decay_factor", decay_factor);
  f.AddUint("dense.fall_steps", fall_steps);
  f.AddDouble("dense.adam_beta1", adam_beta1);
  f.AddDouble("dense.adam_beta2", adam_beta2);
  f.AddDouble("dense.adam_epsilon", adam_epsilon);
}

Result<DenseOptions> DenseOptions::From(const io::StateFields& fields) {
  DenseOptions o;
  ASSIGN_OR_RETURN(const std::string name, fields.Text("dense.rule"));
  ASSIGN_OR_RETURN(o.rule, DenseRuleFromName(name));
  ASSIGN_OR_RETURN(o.rate, fields.Double("dense.rate"));
  ASSIGN_OR_RETURN(o.momentum, fields.Double("dense.momentum"));
  ASSIGN_OR_RETURN(o.weight_decay, fields.Double("dense.weight_decay"));
  ASSIGN_OR_RETURN(o.decay_every, fields.Uint("dense.decay_every"));
  ASSIGN_OR_RETURN(o.decay_factor, fields.Double("dense.decay_factor"));
  ASSIGN_OR_RETURN(o.fall_steps, fields.Uint("dense.fall_steps"));
  ASSIGN_OR_RETURN(o.adam_beta1, fields.Double("dense.adam_beta1"));
  ASSIGN_OR_RETURN(o.adam_beta2, fields.Double("dense.adam_beta2"));
  ASSIGN_OR_RETURN(o.adam_epsilon, fields.Double("dense.adam_epsilon"));
  RETURN_IF_ERROR(o.Validate());
  return o;
}

}  // namespace millrace::sparse
