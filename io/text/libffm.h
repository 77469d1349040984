// SPDX-License-Identifier: Apache-2.0
// libffm text, one example per line:
//
//   label field:index:value field:index:value ...  # comment
//
// Blanks are spaces and tabs; a trailing \r is dropped. Unlike in libsvm text, the order is free,
// and an index may repeat.
#pragma once

#include <string_view>

#include "io/base/status.h"
#include "io/text/libsvm.h"
#include "io/text/sparse_row.h"

namespace millrace::io {

// As ParseLibsvmLine, and row.fields are the fields as written: 0 to 65535. Options are the same.
Result<bool> ParseLibffmLine(std::string_view line, const LibsvmOptions& options, SparseRow& row);

}  // namespace millrace::io
