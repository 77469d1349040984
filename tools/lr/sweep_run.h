// SPDX-License-Identifier: Apache-2.0
// A sweep: one run of the program that trains several configurations.
#pragma once

#include "io/base/status.h"
#include "tools/lr/lr_flags.h"

namespace millrace::lr {

// The exit status. options.sweep is not empty.
Result<int> RunSweep(LrOptions options);

}  // namespace millrace::lr
