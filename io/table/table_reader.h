// SPDX-License-Identifier: Apache-2.0
// Tables (the rows of a Parquet file or of an SQL query) as blocks of rows, and the choice between
// tables and files of records.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "io/record/block_reader.h"
#include "io/table/duckdb_api.h"
#include "io/table/table_cells.h"
#include "io/table/table_query.h"

namespace millrace::io {

// How the tables of a data set are read.
struct TableOptions {
  std::shared_ptr<const DuckDbApi> duckdb = nullptr;  // shared: by the readers of all threads
  std::vector<std::string> columns = {};              // of the records, in this order
  std::vector<std::string> available = {};            // all columns of the first table
};

// The columns of the table `source`: of `wanted` those that it has, or, if none are wanted, all
// that can be read. `library` is that of LoadDuckDb. An error names a column of `wanted` whose type
// cannot be read. Shared: see TableOptions.
Result<std::shared_ptr<const TableOptions>> FindTableColumns(
    const std::string& library, const std::string& source, const std::vector<std::string>& wanted);

// An error that names the first of `wanted` that the table does not have.
Status CheckTableColumns(const TableOptions& table, const std::vector<std::string>& wanted);

// A record is a row, see table_row.h; it has the columns of BlockOptions::table. Rows are copied
// once, column by column, from the chunks of DuckDB. Block boundaries depend on the rows and on
// block_bytes alone. Not thread-safe.
class TableReader final : public BlockSource {
  struct Private {};  // only Open makes readers

 public:
  static Result<std::unique_ptr<TableReader>> Open(const std::string& source,
                                                   const BlockOptions& options);

  TableReader(Private, std::string source, const BlockOptions& options,
              std::unique_ptr<TableQuery> query)
      : source_(std::move(source)),
        block_bytes_(options.block_bytes),
        max_record_bytes_(options.max_record_bytes),
        query_(std::move(query)) {}

  Result<bool> Next(Block& block) override;
  const CorruptionStats& corruption() const override { return corruption_; }
  Compression compression() const override { return Compression::kNone; }

 private:
  Status AppendRows(Block& block);
  Result<bool> NextChunk();

  std::string source_;
  uint64_t block_bytes_;
  uint64_t max_record_bytes_;
  std::unique_ptr<TableQuery> query_;
  std::vector<std::unique_ptr<TableCells>> cells_;  // by column of the records
  std::vector<size_t> columns_;                     // the same columns in the query
  uint64_t next_ = 0;                               // row of the chunk
  uint64_t chunk_rows_ = 0;
  uint64_t row_ = 0;  // rows before next_
  Status error_;      // returned after the rows before it
  CorruptionStats corruption_;
};

// A BlockReader, or a TableReader for Framing::kTable.
Result<std::unique_ptr<BlockSource>> OpenBlocks(const std::string& source,
                                                const BlockOptions& options);

}  // namespace millrace::io
