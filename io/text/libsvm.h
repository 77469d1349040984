// LIBSVM / SVMlight text, one example a line:
//
//   label [qid:N] index:value index:value ...  # comment
//
// Blanks are spaces and tabs; indices ascend strictly; a trailing \r is dropped.
#pragma once

#include <string_view>

#include "io/base/status.h"
#include "io/batch/labels.h"
#include "io/text/sparse_row.h"

namespace millrace::io {

struct LibsvmOptions {
  int index_base = 0;  // subtracted from every index: 0 or 1
  Labels labels = Labels::kRequired;
};

// Replaces `row` by the line's content and returns true; false for a line that is blank or only a
// comment. The label may be any finite number: whether it suits a model is the caller's business.
// `qid` is checked and ignored. An error (kCorrupt) names the column, what was expected there and
// what was found; `row` is then unspecified.
Result<bool> ParseLibsvmLine(std::string_view line, const LibsvmOptions& options, SparseRow& row);

}  // namespace millrace::io
