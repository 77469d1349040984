// SPDX-License-Identifier: Apache-2.0
// Vowpal Wabbit's text format for simple labels, one example per line:
//
//   label [importance [base]] ['tag]|namespace[:scale] name[:value] name[:value] ... |namespace ...
//
// - A word that touches the first '|' or begins with ' is the tag (so "1|f a" has the tag 1 and no
//   label, as in VW). Tags are ignored. A base other than 0 is an error: rows cannot represent it.
// - '|' directly followed by a blank is the default (nameless) namespace. A namespace may repeat.
// - A value is 1 unless given, times the namespace's scale. Zero values and repeated names are
// kept.
// - A line that begins with # is a comment (VW has none; a '#' elsewhere is part of a name).
//
// Keys: the hash of (namespace, name), so that equal names of two namespaces are two features. With
// hash_bits of 1 to 32 a key is that of VW with --hash all -b hash_bits: the lowest bits of
// Murmur3(name, Murmur3(namespace, 0)); the nameless namespace has the hash 0. VW has no wider
// keys: otherwise a key is the lowest bits of HashString(name, HashString(namespace)). Without
// `hash_all` a name of decimal digits below 2^64 is a number in any namespace (files with numbered
// features keep their indices), so such names collide between namespaces.
#pragma once

#include <string_view>

#include "io/base/status.h"
#include "io/batch/csr_batch.h"
#include "io/text/sparse_row.h"

namespace millrace::io {

struct VwOptions {
  int hash_bits = 0;     // 1 to 64; 0: 64-bit keys
  bool hash_all = true;  // false: a name of digits is its key
  Labels labels = Labels::kRequired;
};

// Replaces `row` by the line's content and returns true; false for a blank line or a comment. A
// line without label is an error unless labels are optional; so is a line without '|', which is
// probably not VW text. An error (kCorrupt) names the column, expected and found; `row` is then
// unspecified.
Result<bool> ParseVwLine(std::string_view line, const VwOptions& options, SparseRow& row);

}  // namespace millrace::io
