// SPDX-License-Identifier: Apache-2.0
// Takes the part of score_net.cc in a build without nets.
#include "tools/predict/commands.h"

namespace millrace::predict {

Result<NetSummary> ScoreNet(NetScoreOptions options) {
  return Invalid(options.model +
                 ": expected a model of millrace-lr, found a net: this build of millrace-predict "
                 "has no nets (CMake option MILLRACE_CONVNETS)");
}

}  // namespace millrace::predict
