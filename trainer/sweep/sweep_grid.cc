// SPDX-License-Identifier: Apache-2.0
#include "trainer/sweep/sweep_grid.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <optional>

#include "io/base/random.h"
#include "io/state/state_fields.h"

namespace millrace::trainer {
namespace {

using sparse::UpdateOptions;

struct Option {
  const char* name;
  double UpdateOptions::*value;
};
constexpr Option kOptions[] = {{"learning_rate", &UpdateOptions::rate},
                               {"l1", &UpdateOptions::l1},
                               {"l2", &UpdateOptions::l2},
                               {"factor_l2", &UpdateOptions::factor_l2},
                               {"ftrl_beta", &UpdateOptions::ftrl_beta},
                               {"adagrad_epsilon", &UpdateOptions::adagrad_epsilon},
                               {"adagrad_initial", &UpdateOptions::adagrad_initial}};
constexpr std::string_view kRandom = "random:";
constexpr uint64_t kSweepStream = 0x73776565;  // of the seed

std::vector<std::string> Split(std::string_view text, char at) {
  std::vector<std::string> parts;
  while (true) {
    const size_t end = text.find(at);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

Status Bad(const std::string& what) { return Invalid("sweep: " + what); }

std::optional<double> NumberOf(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!std::isfinite(value) || value < 0) return std::nullopt;
  return value;
}

Result<const Option*> OptionOf(const std::string& name) {
  for (const Option& option : kOptions) {
    if (name == option.name) return &option;
  }
  return Bad("expected one of " + SweepOptionNames() + ", found '" + name + "'");
}

// An option with its values, or with a range to draw from.
struct Axis {
  const Option* option = nullptr;
  std::vector<std::string> values;
  double low = 0, high = 0;  // without values
};

Result<double> ValueOf(const Option& option, const std::string& text) {
  const bool is_rate = option.value == &UpdateOptions::rate;
  if (is_rate && text == "auto") return 0.0;
  const auto value = NumberOf(text);
  if (value && (!is_rate || *value > 0)) return *value;
  return Bad(std::string(option.name) + ": expected a number " +
             (is_rate ? "above 0, or auto" : "of 0 or more") + ", found '" + text + "'");
}

Result<Axis> AxisOf(const std::string& text, bool may_be_range) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) {
    return Bad("expected OPTION=VALUE,VALUE,..., found '" + text + "'");
  }
  Axis axis;
  ASSIGN_OR_RETURN(axis.option, OptionOf(text.substr(0, equals)));
  const std::string values = text.substr(equals + 1);
  const std::string name = axis.option->name;
  if (const size_t dots = values.find(".."); dots != std::string::npos) {
    if (!may_be_range) return Bad(name + ": a range belongs to random:N, found '" + values + "'");
    const auto low = NumberOf(values.substr(0, dots)), high = NumberOf(values.substr(dots + 2));
    const bool is_rate = axis.option->value == &UpdateOptions::rate;
    if (!low || !high || *low >= *high || (is_rate && *low == 0)) {
      return Bad(name + ": expected LOW..HIGH with numbers " + (is_rate ? "above 0" : "from 0 on") +
                 ", LOW below HIGH, found '" + values + "'");
    }
    axis.low = *low;
    axis.high = *high;
    return axis;
  }
  axis.values = Split(values, ',');
  std::vector<double> numbers;
  for (const std::string& value : axis.values) {
    ASSIGN_OR_RETURN(const double number, ValueOf(*axis.option, value));
    if (std::find(numbers.begin(), numbers.end(), number) != numbers.end()) {
      return Bad(name + ": the value " + value + " comes twice");
    }
    numbers.push_back(number);
  }
  return axis;
}

Result<std::vector<Axis>> AxesOf(const std::vector<std::string>& texts, bool may_be_range) {
  std::vector<Axis> axes;
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(Axis axis, AxisOf(text, may_be_range));
    for (const Axis& earlier : axes) {
      if (earlier.option == axis.option) {
        return Bad(std::string(axis.option->name) + " comes twice");
      }
    }
    axes.push_back(std::move(axis));
  }
  return axes;
}

// With three digits: people read a value and give it again.
std::string Drawn(const Axis& axis, Random& random) {
  if (!axis.values.empty()) return axis.values[random.Below(axis.values.size())];
  const double share = random.Uniform();
  const double value =
      axis.low > 0 ? axis.low * std::pow(axis.high / axis.low, share) : axis.high * share;
  if (value == 0) return "0";
  const double unit = std::pow(10, std::floor(std::log10(value)) - 2);
  const double rounded = std::round(value / unit) * unit;
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, rounded, std::chars_format::general, 3);
  return {text, end.ptr};
}

Result<SweepConfig> ConfigOf(const std::vector<Axis>& axes, const std::vector<std::string>& values,
                             const UpdateOptions& base) {
  SweepConfig config{.options = {}, .update = base};
  std::string text;
  for (size_t i = 0; i < axes.size(); ++i) {
    ASSIGN_OR_RETURN(config.update.*axes[i].option->value, ValueOf(*axes[i].option, values[i]));
    config.options.emplace_back(axes[i].option->name, values[i]);
    text += (i > 0 ? ", " : "") + config.options.back().first + "=" + values[i];
  }
  const Status valid = config.update.Validate();
  if (!valid.ok()) return Bad(text + ": " + valid.message());
  return config;
}

Status CheckCount(size_t count) {
  if (count >= 2 && count <= kMaxSweep) return {};
  return Bad("expected 2 to " + std::to_string(kMaxSweep) + " configurations, found " +
             std::to_string(count));
}

Result<std::vector<SweepConfig>> Grid(const std::vector<Axis>& axes, const UpdateOptions& base) {
  size_t count = 1;
  for (const Axis& axis : axes) count = std::min(count * axis.values.size(), 100 * kMaxSweep);
  RETURN_IF_ERROR(CheckCount(count));
  std::vector<SweepConfig> configs;
  for (size_t number = 0; number < count; ++number) {
    std::vector<std::string> values(axes.size());
    size_t rest = number;
    for (size_t i = axes.size(); i-- > 0; rest /= axes[i].values.size()) {
      values[i] = axes[i].values[rest % axes[i].values.size()];
    }
    ASSIGN_OR_RETURN(SweepConfig config, ConfigOf(axes, values, base));
    configs.push_back(std::move(config));
  }
  return configs;
}

Result<std::vector<SweepConfig>> Draws(size_t count, const std::vector<Axis>& axes,
                                       const UpdateOptions& base, uint64_t seed) {
  Random random(DeriveSeed(seed, kSweepStream));
  std::vector<SweepConfig> configs;
  // A few lists have few combinations: those that come again are drawn again.
  for (size_t tries = 0; configs.size() < count; ++tries) {
    std::vector<std::string> values;
    for (const Axis& axis : axes) values.push_back(Drawn(axis, random));
    ASSIGN_OR_RETURN(SweepConfig config, ConfigOf(axes, values, base));
    const bool known = std::any_of(configs.begin(), configs.end(), [&](const SweepConfig& other) {
      return other.options == config.options;
    });
    if (!known) configs.push_back(std::move(config));
    if (tries > 1000 * kMaxSweep) {
      return Bad("random:" + std::to_string(count) + ": the values have only " +
                 std::to_string(configs.size()) + " combinations");
    }
  }
  return configs;
}

}  // namespace

std::string SweepOptionNames() {
  std::string names;
  for (const Option& option : kOptions)
    names += (names.empty() ? "" : ", ") + std::string(option.name);
  return names;
}

std::string RandomRanges(sparse::Rule rule) {
  const double rate = UpdateOptions{.rule = rule}.Rate();
  return "learning_rate=" + io::NumberText(rate / 10) + ".." + io::NumberText(rate * 10) +
         (rule == sparse::Rule::kFtrl ? ";l1=0.01..10" : "");
}

Result<std::vector<SweepConfig>> ParseSweep(std::string_view text, const UpdateOptions& base,
                                            uint64_t seed) {
  if (!text.starts_with(kRandom)) {
    ASSIGN_OR_RETURN(const std::vector<Axis> axes, AxesOf(Split(text, ';'), false));
    return Grid(axes, base);
  }
  std::vector<std::string> parts = Split(text.substr(kRandom.size()), ';');
  size_t count = 0;
  const std::string& number = parts.front();
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), count);
  if (error != std::errc() || end != number.data() + number.size()) {
    return Bad("expected random:N with a number of configurations, found 'random:" + number + "'");
  }
  RETURN_IF_ERROR(CheckCount(count));
  parts.erase(parts.begin());
  if (parts.empty()) parts = Split(RandomRanges(base.rule), ';');
  ASSIGN_OR_RETURN(const std::vector<Axis> axes, AxesOf(parts, true));
  return Draws(count, axes, base, seed);
}

}  // namespace millrace::trainer
