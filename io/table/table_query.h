// SPDX-License-Identifier: Apache-2.0
// A query of DuckDB, or all rows of a Parquet file, as a stream of chunks of columns.
//
// DuckDB runs with one thread, in the thread that calls Fetch: then the rows of any query come in
// the same order every time, which the resume of a run relies on. A query can begin with SET
// threads = 4; and so on: all its statements but the last are run first.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/status.h"
#include "io/table/duckdb_api.h"

namespace millrace::io {

// Whether an input "file" is a query: "sql:SELECT ...".
bool IsQuery(std::string_view source);
// For messages: the path, or the query, cut if it is long.
std::string TableName(const std::string& source);

// Has a database of its own in memory. Not thread-safe.
class TableQuery {
  struct Private {};  // only Open makes queries

 public:
  // Prepares the query or the file, which tells the columns, and starts nothing yet. Of a file only
  // `columns` are read, or all if there are none. Errors name the source, and what DuckDB says.
  static Result<std::unique_ptr<TableQuery>> Open(std::shared_ptr<const DuckDbApi> duckdb,
                                                  const std::string& source,
                                                  const std::vector<std::string>& columns);
  TableQuery(Private, std::shared_ptr<const DuckDbApi> duckdb, std::string source);
  ~TableQuery();
  TableQuery(const TableQuery&) = delete;
  TableQuery& operator=(const TableQuery&) = delete;

  const DuckDbApi& duckdb() const { return *duckdb_; }
  const std::vector<std::string>& names() const { return names_; }
  // The duckdb_logical_type of a column; lives as long as the query.
  DuckHandle type(size_t column) const { return types_[column]; }

  // Of a Parquet file: the bytes that DuckDB needs for a chunk of `columns` (all if empty), of its
  // largest row group and on average. Chunks have up to 2,048 rows, whatever their size. The texts
  // of a dictionary count once.
  Result<uint64_t> ParquetChunkBytes(const std::vector<std::string>& columns);

  // Computes the next chunk; false at the end.
  Result<bool> Fetch();
  // Of the chunk, which is valid until the next Fetch.
  uint64_t rows() const { return duckdb_->data_chunk_get_size(chunk_); }
  DuckHandle vector(size_t column) const { return duckdb_->data_chunk_get_vector(chunk_, column); }

 private:
  Status OpenDatabase();
  Status Prepare(const std::string& sql);
  Status PrepareStatement(DuckHandle statements, uint64_t number);
  Result<uint64_t> ReadNumber(const std::string& sql);
  Status Start();
  Status Error(const char* what) const;

  std::shared_ptr<const DuckDbApi> duckdb_;
  std::string source_;
  DuckHandle database_ = nullptr;
  DuckHandle connection_ = nullptr;
  DuckHandle prepared_ = nullptr;
  std::vector<std::string> names_;
  std::vector<DuckHandle> types_;
  bool started_ = false;
  bool ended_ = false;  // the end was reached, or an error
  DuckResult result_ = {};
  DuckHandle chunk_ = nullptr;
};

}  // namespace millrace::io
