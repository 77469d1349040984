// SPDX-License-Identifier: Apache-2.0
#include <new>

#include "convnets/engine/dnnl_net.h"
#include "convnets/engine/lane_net.h"
#include "convnets/engine/plain_net.h"
#include "convnets/net/net.h"

namespace millrace::convnets {
namespace {

Result<std::unique_ptr<Net>> Make(const std::string& engine, const NetSpec& spec,
                                  const Params& params, const EngineOptions& options) {
  if (engine == "plain") {
    return std::unique_ptr<Net>(std::make_unique<PlainNet>(spec, params, options));
  }
  if (engine == "lanes" || engine == "auto") {
    Result<std::unique_ptr<LaneNet>> net = LaneNet::Create(spec, params, options);
    if (net.ok()) return std::unique_ptr<Net>(std::move(*net));
    if (engine == "lanes") return net.status();
  }
  if (engine == "onednn" || engine == "auto") return MakeDnnlNet(spec, params, options);
  return Invalid("engine: expected auto, lanes, onednn or plain, found '" + engine + "'");
}

}  // namespace

Result<std::unique_ptr<Net>> MakeEngine(const std::string& engine, const NetSpec& spec,
                                        const Params& params, const EngineOptions& options) {
  if (options.max_batch == 0 || options.threads == 0) {
    return Invalid("engine: expected at least one image a batch and one thread");
  }
  try {
    return Make(engine, spec, params, options);
  } catch (const std::bad_alloc&) {
    return Invalid("batch_size = " + std::to_string(options.max_batch) +
                   ": not enough memory for the net " + spec.name);
  }
}

}  // namespace millrace::convnets
