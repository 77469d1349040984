// SPDX-License-Identifier: Apache-2.0
#include "sparse/update_options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

namespace millrace::sparse {
namespace {

double DefaultRate(Rule rule) {
  switch (rule) {
    case Rule::kSgd:
      return 0.5;
    case Rule::kAdaGrad:
      return 0.1;
    case Rule::kFtrl:
      return 0.1;
    case Rule::kAdam:
      return 0.001;
  }
  return 0;
}

constexpr double kFactorAdaGradInitial = 1;

// The values of option.normalize.
constexpr uint64_t kOnes = 0, kNormalized = 1, kRaw = 2;

}  // namespace

std::string CentersText(const std::vector<io::ValueCenter>& centers) {
  std::string text;
  for (const auto& [key, center] : centers) {
    text += (text.empty() ? "" : " ") + std::to_string(key) + ":" + io::NumberText(center);
  }
  return text;
}

Result<std::vector<io::ValueCenter>> CentersFrom(const std::string& text) {
  std::vector<io::ValueCenter> centers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    io::ValueCenter next;
    const auto key = std::from_chars(at, end, next.key);
    const bool has_key = key.ec == std::errc() && key.ptr < end && *key.ptr == ':';
    const auto center = std::from_chars(has_key ? key.ptr + 1 : end, end, next.center);
    const bool ascends = centers.empty() || centers.back().key < next.key;
    if (!has_key || center.ec != std::errc() || !std::isfinite(next.center) || !ascends) {
      return Corrupt("centers: expected pairs key:center with ascending keys");
    }
    centers.push_back(next);
    at = center.ptr + (center.ptr < end && *center.ptr == ' ' ? 1 : 0);
  }
  return centers;
}

namespace {

float RateAt(const UpdateOptions& options, uint64_t t) {
  const double rate = options.Rate();
  return static_cast<float>(
      options.decay == Decay::kConstant ? rate : rate / std::sqrt(static_cast<double>(t)));
}

}  // namespace

const char* RuleName(Rule rule) {
  switch (rule) {
    case Rule::kSgd:
      return "sgd";
    case Rule::kAdaGrad:
      return "adagrad";
    case Rule::kFtrl:
      return "ftrl";
    case Rule::kAdam:
      return "adam";
  }
  return "unknown";
}

Result<Rule> RuleFromName(std::string_view name) {
  for (const Rule rule : kRules) {
    if (name == RuleName(rule)) return rule;
  }
  return Invalid("optimizer: expected sgd, adagrad, ftrl or adam, found '" + std::string(name) +
                 "'");
}

Result<Decay> DecayFromName(std::string_view name) {
  if (name == "constant") return Decay::kConstant;
  if (name == "sqrt") return Decay::kInverseSqrt;
  return Invalid("decay: expected constant or sqrt, found '" + std::string(name) + "'");
}

double UpdateOptions::Rate() const { return rate > 0 ? rate : DefaultRate(rule); }

Status CheckRange(const char* name, double value, double low, double high) {
  if (value >= low && value <= high) return {};
  char text[160];
  std::snprintf(text, sizeof text, "%s: expected a number from %g to %g, found %g", name, low, high,
                value);
  return Invalid(text);
}

Status UpdateOptions::Validate() const {
  RETURN_IF_ERROR(CheckRange("learning_rate", rate, 0, 1e6));
  RETURN_IF_ERROR(CheckRange("l1", l1, 0, 1e6));
  RETURN_IF_ERROR(CheckRange("l2", l2, 0, 1e6));
  RETURN_IF_ERROR(CheckRange("factor_l2", factor_l2, 0, 1e6));
  RETURN_IF_ERROR(CheckRange("ftrl_beta", ftrl_beta, 0, 1e6));
  RETURN_IF_ERROR(key_groups.Validate());
  for (const KeyGroup& group : key_groups.groups) {
    RETURN_IF_ERROR(CheckRange("rate of a field", group.rate, 1e-6, 1e6));
    RETURN_IF_ERROR(CheckRange("l1 of a field", group.l1, 0, 1e6));
    RETURN_IF_ERROR(CheckRange("l2 of a field", group.l2, 0, 1e6));
    if (group.l1 > 0 && rule != Rule::kFtrl) {
      return Invalid(
          std::string("l1 of a field belongs to the optimizer ftrl: expected none with ") +
          RuleName(rule));
    }
  }
  RETURN_IF_ERROR(CheckRange("adagrad_initial", adagrad_initial, 0, 1e6));
  RETURN_IF_ERROR(
      CheckRange("adagrad_epsilon", adagrad_epsilon, adagrad_initial > 0 ? 0 : 1e-30, 1e6));
  RETURN_IF_ERROR(CheckRange("adam_beta1", adam_beta1, 0, 1 - 1e-9));
  RETURN_IF_ERROR(CheckRange("adam_beta2", adam_beta2, 0, 1 - 1e-9));
  RETURN_IF_ERROR(CheckRange("adam_epsilon", adam_epsilon, 1e-30, 1e6));
  if (l1 > 0 && rule != Rule::kFtrl) {
    return Invalid(std::string("l1 belongs to the optimizer ftrl: expected 0 with ") +
                   RuleName(rule) + " (or the optimizer ftrl)");
  }
  if (decay != Decay::kConstant && (rule == Rule::kFtrl || rule == Rule::kAdaGrad)) {
    return Invalid(std::string("decay: ") + RuleName(rule) +
                   " lowers its rates by itself; expected constant");
  }
  return {};
}

GradientScale GradientScaleOf(Rule rule) {
  const bool adaptive = rule == Rule::kAdaGrad || rule == Rule::kFtrl;
  return adaptive ? GradientScale::kSum : GradientScale::kMean;
}

UpdateOptions InterceptOptions(UpdateOptions options) {
  options.l1 = options.l2 = 0;
  return options;
}

UpdateOptions GroupOptions(UpdateOptions options, size_t group) {
  if (group == 0) return options;
  const KeyGroup& own = options.key_groups.groups[group - 1];
  options.rate = options.Rate() * own.rate;
  options.l1 = own.l1;
  options.l2 = own.l2;
  return options;
}

UpdateOptions FactorUpdateOptions(UpdateOptions options) {
  options.l1 = 0;
  options.l2 = options.factor_l2;
  options.adagrad_initial = std::max(options.adagrad_initial, kFactorAdaGradInitial);
  return options;
}

void AddUpdateOptions(const UpdateOptions& options, io::StateFields& fields) {
  fields.Add("rule", RuleName(options.rule));
  fields.AddDouble("option.rate", options.Rate());
  fields.Add("option.decay", options.decay == Decay::kConstant ? "constant" : "sqrt");
  fields.AddDouble("option.l1", options.l1);
  fields.AddDouble("option.l2", options.l2);
  if (options.factor_l2 != 0) fields.AddDouble("option.factor_l2", options.factor_l2);
  fields.AddDouble("option.ftrl_beta", options.ftrl_beta);
  fields.AddDouble("option.adagrad_epsilon", options.adagrad_epsilon);
  fields.AddDouble("option.adagrad_initial", options.adagrad_initial);
  fields.AddDouble("option.adam_beta1", options.adam_beta1);
  fields.AddDouble("option.adam_beta2", options.adam_beta2);
  fields.AddDouble("option.adam_epsilon", options.adam_epsilon);
  fields.AddUint("option.normalize",
                 options.normalize ? kNormalized : (options.raw_values ? kRaw : kOnes));
  fields.Add("option.centers", CentersText(options.centers));
  if (options.key_groups.empty()) return;
  fields.Add("option.key_groups", options.key_groups.GroupsText());
  fields.Add("option.key_ranges", options.key_groups.RangesText());
}

Result<UpdateOptions> UpdateOptionsFrom(const io::StateFields& fields) {
  UpdateOptions options;
  ASSIGN_OR_RETURN(const std::string rule, fields.Text("rule"));
  ASSIGN_OR_RETURN(options.rule, RuleFromName(rule));
  ASSIGN_OR_RETURN(options.rate, fields.Double("option.rate"));
  ASSIGN_OR_RETURN(const std::string decay, fields.Text("option.decay"));
  ASSIGN_OR_RETURN(options.decay, DecayFromName(decay));
  ASSIGN_OR_RETURN(options.l1, fields.Double("option.l1"));
  ASSIGN_OR_RETURN(options.l2, fields.Double("option.l2"));
  if (fields.Text("option.factor_l2").ok()) {
    ASSIGN_OR_RETURN(options.factor_l2, fields.Double("option.factor_l2"));
  }
  ASSIGN_OR_RETURN(options.ftrl_beta, fields.Double("option.ftrl_beta"));
  ASSIGN_OR_RETURN(options.adagrad_epsilon, fields.Double("option.adagrad_epsilon"));
  ASSIGN_OR_RETURN(options.adagrad_initial, fields.Double("option.adagrad_initial"));
  ASSIGN_OR_RETURN(options.adam_beta1, fields.Double("option.adam_beta1"));
  ASSIGN_OR_RETURN(options.adam_beta2, fields.Double("option.adam_beta2"));
  ASSIGN_OR_RETURN(options.adam_epsilon, fields.Double("option.adam_epsilon"));
  ASSIGN_OR_RETURN(const uint64_t normalize, fields.Uint("option.normalize"));
  if (normalize > kRaw) {
    return Corrupt("option.normalize: expected 0, 1 or 2, found " + std::to_string(normalize));
  }
  options.normalize = normalize == kNormalized;
  options.raw_values = normalize == kRaw;
  ASSIGN_OR_RETURN(const std::string centers, fields.Text("option.centers"));
  ASSIGN_OR_RETURN(options.centers, CentersFrom(centers));
  if (fields.Text("option.key_groups").ok()) {
    ASSIGN_OR_RETURN(const std::string groups, fields.Text("option.key_groups"));
    ASSIGN_OR_RETURN(const std::string ranges, fields.Text("option.key_ranges"));
    ASSIGN_OR_RETURN(options.key_groups, KeyGroupsFrom(groups, ranges));
  }
  return options;
}

SgdParams SgdParamsAt(const UpdateOptions& o, uint64_t t) {
  return {RateAt(o, t), static_cast<float>(o.l2)};
}

AdaGradParams AdaGradParamsAt(const UpdateOptions& o, uint64_t t) {
  return {RateAt(o, t), static_cast<float>(o.l2),
          static_cast<float>(o.adagrad_initial + o.adagrad_epsilon)};
}

FtrlParams FtrlParamsAt(const UpdateOptions& o, uint64_t t) {
  return {1 / RateAt(o, t), static_cast<float>(o.ftrl_beta), static_cast<float>(o.l1),
          static_cast<float>(o.l2)};
}

AdamParams AdamParamsAt(const UpdateOptions& o, uint64_t t) {
  const auto steps = static_cast<double>(t);
  const double correction =
      std::sqrt(1 - std::pow(o.adam_beta2, steps)) / (1 - std::pow(o.adam_beta1, steps));
  return {static_cast<float>(RateAt(o, t) * correction), static_cast<float>(o.adam_beta1),
          static_cast<float>(o.adam_beta2), static_cast<float>(o.adam_epsilon),
          static_cast<float>(o.l2)};
}

}  // namespace millrace::sparse
