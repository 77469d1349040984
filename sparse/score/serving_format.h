// SPDX-License-Identifier: Apache-2.0
// The file format of serving models: a table of weights that is used as it is mapped into memory,
// and a description behind it. Numbers are little-endian; CRCs are CRC-32C, masked as in TFRecord.
//
//   file     +------+-------+--------+------------+------+
//            | head | table | fields | block CRCs | tail |
//            | 4096 |   T   |   F    |  4 * blocks |  32  |
//            +------+-------+--------+------------+------+
//   head     MILLSERV, then zeros
//   table    dense: for each key from 0 to num_features - 1 an entry: its weight and its factors.
//            hash: buckets of whole cache lines, each with S keys (UINT64_MAX: free), the S entries
//            of these keys, and zeros. A key is in bucket floor(Mix64(key) * buckets / 2^64) or, if
//            that is full, in the first one behind it (cyclically) with a free place. The free
//            places of a bucket are its last ones.
//   fields   lines "name value", see StateFields
//   CRCs     of each 1 MiB of head and table together, the last block may be shorter
//   tail     +--------------+--------------+----------+------------+----------+----------+
//            | bytes of     | block bytes: | bytes of | version: 1 | CRC of   | MILLSERV |
//            | the table: 8 |      4       | fields: 4|     4      | this: 4  |     8    |
//            +--------------+--------------+----------+------------+----------+----------+
//            That CRC is of fields, block CRCs and the tail up to itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/random.h"
#include "io/base/status.h"
#include "io/batch/csr_batch.h"
#include "io/rows/row_decoder.h"
#include "io/state/state_fields.h"
#include "sparse/factors.h"
#include "sparse/score/weights_type.h"

namespace millrace::score {

constexpr std::string_view kServingMagic = "MILLSERV";
constexpr uint32_t kServingVersion = 1;
constexpr size_t kServingHeadBytes = 4096;
constexpr size_t kServingTailBytes = 32;
constexpr size_t kServingBlockBytes = 1 << 20;
constexpr size_t kCacheLine = 64;
constexpr uint64_t kFreeKey = io::kInterceptKey;  // no row has it

enum class Layout { kDense, kHash };

inline const char* LayoutName(Layout layout) { return layout == Layout::kDense ? "dense" : "hash"; }

// Where the entries of a table are.
struct TableShape {
  Layout layout = Layout::kDense;
  WeightsType type = WeightsType::kF32;
  uint32_t numbers = 1;       // of an entry: the weight, then the factors
  uint64_t num_features = 0;  // dense: entries
  uint64_t buckets = 0;       // hash
  uint32_t bucket_keys = 0;   // hash: S
  uint32_t bucket_bytes = 0;  // hash: a multiple of kCacheLine

  size_t entry_bytes() const { return numbers * BytesOf(type); }
  // Not more than 2^63.
  uint64_t table_bytes() const {
    return layout == Layout::kDense ? num_features * entry_bytes() : buckets * bucket_bytes;
  }
  uint64_t BucketOf(uint64_t key) const {
    return static_cast<uint64_t>((static_cast<__uint128_t>(Mix64(key)) * buckets) >> 64);
  }
  // An error if the numbers cannot be those of a table.
  Status Validate() const;
};

TableShape DenseShape(uint64_t num_features, uint32_t numbers, WeightsType type);
// For `keys` keys: buckets with the least waste, 70 % full.
TableShape HashShape(uint64_t keys, uint32_t numbers, WeightsType type);

// What a serving model says about itself.
struct ServingInfo {
  TableShape table;
  uint64_t num_features = 0;  // keys are below; 0: any 64-bit key
  sparse::FactorShape factors;
  float intercept = 0;  // of rows with `centers`
  std::vector<io::ValueCenter> centers;
  uint64_t weights = 0;  // features with a weight
  uint64_t steps = 0;
  uint64_t examples = 0;
  std::string input_format;  // empty: not known
  std::string feature_spec;  // JSON; empty: none
};

// The fields of a model's header (num_features, rule, option.centers, input.*, ...) stay as they
// are; those of the table are added.
void AddTable(const TableShape& table, float intercept, uint64_t weights, io::StateFields& fields);
Result<ServingInfo> ServingInfoFrom(const io::StateFields& fields);

}  // namespace millrace::score
