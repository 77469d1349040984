// The engine of large nets: oneDNN on blocked layouts, and own loops where those are as fast.
#pragma once

#include <memory>

#include "convnets/net/net.h"

namespace millrace::convnets {

// Layouts stay blocked from the first convolution to the first fully connected layer. The oneDNN
// library's threads are those of OpenMP, which are the whole process's.
Result<std::unique_ptr<Net>> MakeDnnlNet(const NetSpec& spec, const Params& params,
                                         const EngineOptions& options);

}  // namespace millrace::convnets
