// SPDX-License-Identifier: Apache-2.0
// Finds the first bad row in the order of the files. A shuffled queue meets bad rows in a random
// order; if every row is bad (a wrong option), its user looks for the mistake in a random line.
#pragma once

#include "io/queue/batch_group.h"
#include "io/queue/input_options.h"

namespace millrace::io {

// Reads the files from the beginning up to `found`, at most 256 MB, and returns the first row that
// cannot be decoded; `found` if there is none or the files cannot be read again. Call it without
// locks. The row's path lives as long as `options`.
BadRow FirstBadRow(const InputOptions& options, const BadRow& found);

}  // namespace millrace::io
