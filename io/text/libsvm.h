// SPDX-License-Identifier: Apache-2.0
// LIBSVM / SVMlight text, one example per line:
//
//   label [qid:N] index:value index:value ...  # comment
//
// Blanks are spaces and tabs; indices ascend strictly; a trailing \r is dropped.
#pragma once

#include <string_view>

#include "io/base/status.h"
#include "io/batch/csr_batch.h"
#include "io/text/line_cursor.h"
#include "io/text/sparse_row.h"

namespace millrace::io {

struct LibsvmOptions {
  int index_base = 0;  // subtracted from every index: 0 or 1
  Labels labels = Labels::kRequired;
};

// Replaces `row` by the line's content and returns true; false for a blank line or a comment. The
// label may be any finite number: the caller checks whether it suits the model. `qid` is checked
// and ignored. An error (kCorrupt) names the column, expected and found; `row` is then unspecified.
Result<bool> ParseLibsvmLine(std::string_view line, const LibsvmOptions& options, SparseRow& row);

// The beginning of a line of this format or of libffm: cuts the comment off and moves behind the
// label and the blanks after it. False for a blank line.
Result<bool> ParseLibsvmLabel(LineCursor& cursor, Labels labels, float& label);

}  // namespace millrace::io
