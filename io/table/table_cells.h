// SPDX-License-Identifier: Apache-2.0
// Copies the values of DuckDB's vectors, column by column, into rows (table_row.h).
//
//   DuckDB                               becomes
//   TINYINT to BIGINT, UTINYINT to       an integer; what does not fit 64 bits with a sign: the
//   UBIGINT, HUGEINT, UHUGEINT           text of its digits
//   BOOLEAN                              the text "true" or "false"
//   FLOAT, DOUBLE                        a number
//   DECIMAL                              a double; with scale 0 an integer
//   DATE                                 the text 2024-05-31
//   TIMESTAMP (_S, _MS, _NS)             the text 2024-05-31 17:04:05.25
//   TIMESTAMP WITH TIME ZONE             the same in UTC, with +00
//   VARCHAR, BLOB                        its bytes as a text
//   ENUM                                 the text of the value
//   LIST of these                        several values; a NULL in it is left out
//   NULL                                 a missing value
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "io/table/duckdb_api.h"

namespace millrace::io {

// Of one column. Not thread-safe.
class TableCells {
 public:
  virtual ~TableCells() = default;
  // The vector of the chunk whose values are copied next.
  virtual void Attach(const DuckDbApi& duckdb, DuckHandle vector) = 0;
  // Adds the bytes of the values of the rows [first, first + count) to `sizes`.
  virtual void AddSizes(size_t first, size_t count, uint64_t* sizes) const = 0;
  // Writes the values to `out`, one pointer per row, and moves the pointers behind them.
  virtual void Write(size_t first, size_t count, char** out) const = 0;
};

// Null for a type that is not in the table above. `type` is a duckdb_logical_type.
std::unique_ptr<TableCells> MakeTableCells(const DuckDbApi& duckdb, DuckHandle type);

// "STRUCT", for a message.
std::string TableTypeName(const DuckDbApi& duckdb, DuckHandle type);

}  // namespace millrace::io
