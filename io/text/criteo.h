// SPDX-License-Identifier: Apache-2.0
// Criteo's click logs, one example per line of 40 tab-separated columns:
//
//   label (0 or 1) | 13 integer columns I1..I13 | 26 categorical columns C1..C26
//
// A categorical value has up to 8 hex digits. Empty cells are missing values. Each cell becomes a
// token (a number that identifies its value within the column), and each (column, token) a key with
// the value 1: by hashing, or by a vocabulary that a first pass builds.
//
// Tokens:
//   missing cell     0, in every column: "missing" is a separate value
//   integer x >= 0   1 + Bucket(x)
//   integer x <  0   kCriteoNegative + Bucket(-x)
//   hex value v      1 + v (so upper and lower case, or leading zeros, make no difference)
// Bucket: 0 to 7 have one bucket each; above, every power of two is split into four equal buckets
// (8-9, 10-11, 12-13, 14-15, 16-19, 20-23, ...), so a bucket is never wider than a quarter of its
// smallest value. Integer arithmetic only.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "io/base/status.h"
#include "io/batch/csr_batch.h"
#include "io/text/sparse_row.h"

namespace millrace::io {

constexpr int kCriteoIntegers = 13;
constexpr int kCriteoCategories = 26;
constexpr int kCriteoFields = kCriteoIntegers + kCriteoCategories;

// Bucket(-x) of a negative x runs from 1 to 248, so these tokens lie above the 249 of missing and x
// >= 0.
constexpr uint64_t kCriteoNegative = 248;

// Of a vocabulary file.
constexpr uint64_t kMaxCriteoVocabularyLine = 4096;

struct CriteoLine {
  float label = 0;
  std::string_view fields[kCriteoFields];  // parts of the line that was split
};

// Splits and checks a line; false for a blank one. An error (kCorrupt) names what was expected and
// found: the number of columns, the label, an integer beyond 64 bits or not one, a category that is
// not up to 8 hex digits.
Result<bool> SplitCriteoLine(std::string_view line, CriteoLine& out,
                             Labels labels = Labels::kRequired);

// "I1" to "I13", "C1" to "C26" for field 0 to 38.
std::string CriteoFieldName(int field);

// The bucket of a magnitude as defined above: 0 to 251.
uint32_t CriteoBucket(uint64_t magnitude);
// The token of a cell as defined above. A cell that SplitCriteoLine rejects counts as missing.
uint64_t CriteoToken(int field, std::string_view cell);

// Turns lines into rows: label, and one key per field in the order of the fields, all values 1.
class CriteoKeys {
 public:
  virtual ~CriteoKeys() = default;
  virtual void Encode(const CriteoLine& line, SparseRow& row) const = 0;
  // Keys are below it; 0: any 64-bit key.
  virtual uint64_t num_features() const = 0;
};

// key = the lowest `hash_bits` bits (0: all 64) of a hash of (field, token). Needs no first pass;
// keys may collide.
class CriteoHasher final : public CriteoKeys {
 public:
  explicit CriteoHasher(int hash_bits) : hash_bits_(hash_bits) {}
  void Encode(const CriteoLine& line, SparseRow& row) const override;
  uint64_t num_features() const override;

 private:
  int hash_bits_;
};

// Dense keys without collisions, field by field: first one key for all unseen or rare values, then
// the field's values in the order of their tokens. Keys depend on what was counted, not on its
// order.
//
//   CriteoVocabulary v;
//   v.Count(line);                 for each line
//   v.Freeze(min_count);
//   v.Save(path);
//   v.Encode(line, row);           for each line again
//
// A vocabulary can grow with new data: after Extend, Count and Freeze give the new values the keys
// from the old num_features on, in the same order; all old keys stay.
//
// The file is tab-separated text; every line ends with \n:
//   # millrace criteo vocabulary 1        the version
//   # num_features 1204 min_count 2
//   field  value  key  count              names of the columns
//   I1     *      0    7                  "*": unseen or rare; count: of cells in the first passes
//   I1            1    30                 empty: missing
//   I1     3      2    12                 an integer column's token, in decimal
//   C1     6fcd6dcb  95  11               a categorical column's value, in 8 hex digits
//   # crc32c 1a2b3c4d                     of all bytes before this line
// Const calls are thread-safe.
class CriteoVocabulary final : public CriteoKeys {
 public:
  void Count(const CriteoLine& line);
  // New values with fewer than `min_count` cells share their field's first key. Call once, after
  // all Counts.
  void Freeze(uint64_t min_count);
  // Makes a frozen vocabulary ready for further Counts and another Freeze.
  void Extend() { frozen_ = false; }
  void Encode(const CriteoLine& line, SparseRow& row) const override;
  uint64_t num_features() const override { return num_features_; }

  // Atomic: the file appears complete or not at all.
  Status Save(const std::string& path) const;
  // Rejects a file whose version, order, keys (each below num_features once) or checksum differ
  // from what Save writes.
  static Result<CriteoVocabulary> Load(const std::string& path);

 private:
  static constexpr uint64_t kNoKey = UINT64_MAX;  // until Freeze
  struct Value {
    uint64_t key = kNoKey;
    uint64_t count = 0;
  };
  struct Field {
    std::unordered_map<uint64_t, Value> values;  // by token
    Value unseen;
  };
  friend class CriteoVocabularyReader;

  std::array<Field, kCriteoFields> fields_;
  uint64_t num_features_ = 0;
  uint64_t min_count_ = 0;
  bool frozen_ = false;
};

}  // namespace millrace::io
