// SPDX-License-Identifier: Apache-2.0
// A sweep: one run of the program that trains several configurations.
#pragma once

#include <memory>

#include "io/base/status.h"
#include "tools/lr/lr_flags.h"

namespace millrace::lr {

// What the program does. Its destructor joins input threads, which may be blocked in a read: the
// program ends without it.
class AnyRun {
 public:
  virtual ~AnyRun() = default;
  // The exit status.
  virtual Result<int> Go() = 0;
};

// options.sweep is not empty.
std::unique_ptr<AnyRun> MakeSweepRun(LrOptions options);

}  // namespace millrace::lr
