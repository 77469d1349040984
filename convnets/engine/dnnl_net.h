// SPDX-License-Identifier: Apache-2.0
// The engine of large nets: oneDNN on blocked layouts, and plain loops where they are as fast.
#pragma once

#include <memory>

#include "convnets/net/net.h"

namespace millrace::convnets {

// Layouts stay blocked from the first convolution to the first fully connected layer. oneDNN uses
// OpenMP's threads, which the whole process shares.
Result<std::unique_ptr<Net>> MakeDnnlNet(const NetSpec& spec, const Params& params,
                                         const EngineOptions& options);

}  // namespace millrace::convnets
