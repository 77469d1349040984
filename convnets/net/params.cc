// SPDX-License-Identifier: Apache-2.0
#include "convnets/net/params.h"

#include <cmath>
#include <numbers>

#include "io/base/random.h"

namespace millrace::convnets {
namespace {

constexpr uint64_t kInitStream = 0x1717;
// Each parameter begins on a new cache line.
constexpr size_t kAlign = 16;

size_t Aligned(size_t size) { return (size + kAlign - 1) / kAlign * kAlign; }

// Box and Muller: two independent N(0, 1) from two uniform numbers, of which one is used.
float Normal(Random& random) {
  const double u = 1 - random.Uniform();
  const double v = random.Uniform();
  return static_cast<float>(std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v));
}

}  // namespace

Result<Init> InitFromName(std::string_view name) {
  if (name == "he") return Init::kHe;
  if (name == "xavier") return Init::kXavier;
  if (name == "normal") return Init::kNormal;
  return Invalid("init: expected he, xavier or normal, found '" + std::string(name) + "'");
}

Params::Params(const NetSpec& spec) {
  size_t total = 0;
  for (const Layer& layer : spec.layers) {
    if (layer.has_params()) total += Aligned(layer.weight_size()) + Aligned(layer.out.channels);
  }
  memory_ = HugeArray<float>(total);
  size_t at = 0;
  const auto add = [&](const std::string& name, size_t size, const Origin& origin) {
    params_.push_back({name, memory_.span().subspan(at, size)});
    origins_.push_back(origin);
    at += Aligned(size);
  };
  for (size_t l = 0; l < spec.layers.size(); ++l) {
    const Layer& layer = spec.layers[l];
    if (!layer.has_params()) continue;
    const bool relu = l + 1 < spec.layers.size() && spec.layers[l + 1].kind == LayerKind::kRelu;
    const size_t area = layer.window.kernel * layer.window.kernel;
    const size_t fan_out = layer.kind == LayerKind::kConv ? layer.out.channels / layer.groups * area
                                                          : layer.out.size();
    add(layer.name + ".weight", layer.weight_size(), {layer.fan_in(), fan_out, false, relu});
    add(layer.name + ".bias", layer.out.channels, {layer.fan_in(), fan_out, true, relu});
  }
}

void Params::Initialize(Init init, uint64_t seed) {
  for (size_t p = 0; p < params_.size(); ++p) {
    const Origin& o = origins_[p];
    Random random(DeriveSeed(seed, kInitStream, p));
    const double he = std::sqrt((o.before_relu ? 2.0 : 1.0) / static_cast<double>(o.fan_in));
    const double xavier = std::sqrt(6.0 / static_cast<double>(o.fan_in + o.fan_out));
    for (float& w : params_[p].weights) {
      if (init == Init::kNormal) {
        w = Normal(random);
      } else if (o.bias) {
        w = 0;
      } else if (init == Init::kHe) {
        w = static_cast<float>(he) * Normal(random);
      } else {
        w = static_cast<float>(xavier * (2 * random.Uniform() - 1));
      }
    }
  }
}

}  // namespace millrace::convnets
