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

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/base/status.h"
#include "io/batch/csr_batch.h"
#include "io/features/field_row.h"
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

// A line as a row of named fields, for a feature spec. The columns are `label`, `weight` (the
// importance; 1 if there is none), `tag`, and the namespaces by their names: `user`, or `|user`,
// which is needed for the nameless namespace, `|`, and for one that has the name of another column,
// `|label`. The values of a namespace are the names of its features, each with its number as
// weight. A namespace without features is missing; one that comes more than once has the values of
// all. Not thread-safe.
class VwColumns final : public ColumnReader {
 public:
  explicit VwColumns(const std::vector<std::string>& wanted);
  Result<bool> Read(std::string_view record, FieldRow& row) override;

 private:
  struct Cell {
    uint32_t column = 0;
    std::string_view text;
    float weight = 1;
  };
  struct HashOfText {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  size_t columns_;
  std::array<std::vector<uint32_t>, 3> head_;  // columns of label, weight and tag
  std::unordered_map<std::string, std::vector<uint32_t>, HashOfText, std::equal_to<>> spaces_;
  const std::vector<uint32_t> no_columns_ = {};
  std::vector<Cell> cells_;
  char weight_text_[32];
};

// The columns of a line that are not empty; the weight only if it is not 1.
Result<std::vector<std::string>> VwColumnNames(std::string_view record);

}  // namespace millrace::io
