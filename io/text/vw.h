// Vowpal Wabbit's text format for simple labels, one example a line:
//
//   label [importance [base]] ['tag]|namespace[:scale] name[:value] name[:value] ... |namespace ...
//
// - A word that touches the first '|' or begins with ' is the tag (so "1|f a" has the tag 1 and no
// label, as in VW).
//   Tags are ignored. A base other than 0 is refused: a row has no place for it.
// - '|' directly followed by a blank is the default (nameless) namespace. A namespace may come
// again.
// - A value is 1 unless given, times the namespace's scale. Zero values stay, repeated names stay.
// - A line that begins with # is a comment (VW has none; a '#' elsewhere is part of a name).
//
// Keys: a name of decimal digits below 2^64 is its own number, whatever the namespace, so that
// files whose features are numbered (rcv1) keep their indices; such names in two namespaces meet
// unless `hash_all` is set. Any other name becomes HashString(name, HashString(namespace)). Last,
// the lowest `hash_bits` bits are kept. These are not the keys that VW itself would compute.
#pragma once

#include <string_view>

#include "io/base/status.h"
#include "io/batch/labels.h"
#include "io/text/sparse_row.h"

namespace millrace::io {

struct VwOptions {
  int hash_bits = 0;  // 0: 64-bit keys as they come; otherwise 1 to 64
  // Adds the feature "Constant" of the default namespace, value 1, to every row.
  bool constant = false;
  bool hash_all = false;  // numbers are names like any other
  Labels labels = Labels::kRequired;
};

// Replaces `row` by the line's content and returns true; false for a blank line or a comment. A
// line without label is an error unless labels are optional; so is a line without '|', which is
// likely not VW text. An error (kCorrupt) names the column, what was expected there and what was
// found; `row` is then unspecified.
Result<bool> ParseVwLine(std::string_view line, const VwOptions& options, SparseRow& row);

}  // namespace millrace::io
