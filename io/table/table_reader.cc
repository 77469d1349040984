// SPDX-License-Identifier: Apache-2.0
#include "io/table/table_reader.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "io/base/crc32c.h"
#include "io/base/printable.h"
#include "io/table/table_row.h"
#include "profiler/trace.h"

namespace millrace::io {
namespace {

// Rows that are copied together: they stay in the cache from column to column.
constexpr size_t kTileRows = 128;
// The bytes of a chunk of DuckDB, as a multiple of max_record_bytes.
constexpr uint64_t kChunkRecords = 32;

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Status UnknownType(const TableQuery& query, const std::string& source, size_t column) {
  return Invalid(TableName(source) + ": column '" + query.names()[column] +
                 "': expected numbers, texts, dates or lists of them, found " +
                 TableTypeName(query.duckdb(), query.type(column)) +
                 ": cast it in a query (sql:SELECT ...)");
}

Status MissingColumn(const std::string& column, const std::vector<std::string>& available) {
  return Invalid("column '" + column + "': expected one of the columns " + ListedNames(available));
}

// A small file may hold columns that take more than the memory: a long text is compressed well.
Status CheckChunkBytes(const std::string& path, const std::vector<std::string>& columns,
                       uint64_t limit, TableQuery& query) {
  ASSIGN_OR_RETURN(const uint64_t bytes, query.ParquetChunkBytes(columns));
  if (bytes <= limit) return {};
  return Invalid(path + ": expected at most " + std::to_string(limit) +
                 " bytes in the 2048 rows that DuckDB reads at a time, found about " +
                 std::to_string(bytes) + "; if it is right, raise max_record_bytes");
}

}  // namespace

Result<std::shared_ptr<const TableOptions>> FindTableColumns(
    const std::string& library, const std::string& source, const std::vector<std::string>& wanted) {
  auto table = std::make_shared<TableOptions>();
  ASSIGN_OR_RETURN(table->duckdb, LoadDuckDb(library));
  ASSIGN_OR_RETURN(const auto query, TableQuery::Open(table->duckdb, source, {}));
  table->available = query->names();
  for (size_t i = 0; i < query->names().size(); ++i) {
    const std::string& name = query->names()[i];
    if (!wanted.empty() && !Contains(wanted, name)) continue;
    if (Contains(table->columns, name)) continue;  // the first one of a name counts
    if (MakeTableCells(query->duckdb(), query->type(i))) {
      table->columns.push_back(name);
    } else if (!wanted.empty()) {
      return UnknownType(*query, source, i);
    }
  }
  if (table->columns.empty()) {
    const Status missing = wanted.empty() ? Invalid("no column can be read")
                                          : MissingColumn(wanted.front(), table->available);
    return Invalid(TableName(source) + ": " + missing.message());
  }
  return std::shared_ptr<const TableOptions>(std::move(table));
}

Status CheckTableColumns(const TableOptions& table, const std::vector<std::string>& wanted) {
  for (const std::string& column : wanted) {
    if (!Contains(table.columns, column)) return MissingColumn(column, table.available);
  }
  return {};
}

Result<std::unique_ptr<TableReader>> TableReader::Open(const std::string& source,
                                                       const BlockOptions& options) {
  CHECK(options.table);
  const std::vector<std::string>& columns = options.table->columns;
  ASSIGN_OR_RETURN(auto query, TableQuery::Open(options.table->duckdb, source, columns));
  if (!IsQuery(source)) {
    RETURN_IF_ERROR(
        CheckChunkBytes(source, columns, kChunkRecords * options.max_record_bytes, *query));
  }
  auto reader = std::make_unique<TableReader>(Private{}, source, options, std::move(query));
  const TableQuery& opened = *reader->query_;
  for (const std::string& column : columns) {
    const auto found = std::find(opened.names().begin(), opened.names().end(), column);
    if (found == opened.names().end()) {
      return Invalid(TableName(source) + ": " + MissingColumn(column, opened.names()).message());
    }
    const auto number = static_cast<size_t>(found - opened.names().begin());
    auto cells = MakeTableCells(opened.duckdb(), opened.type(number));
    if (!cells) return UnknownType(opened, source, number);
    reader->columns_.push_back(number);
    reader->cells_.push_back(std::move(cells));
  }
  return reader;
}

Result<bool> TableReader::NextChunk() {
  ASSIGN_OR_RETURN(const bool more, query_->Fetch());
  if (!more) return false;
  next_ = 0;
  chunk_rows_ = query_->rows();
  for (size_t i = 0; i < cells_.size(); ++i) {
    cells_[i]->Attach(query_->duckdb(), query_->vector(columns_[i]));
  }
  return true;
}

Result<bool> TableReader::Next(Block& block) {
  block.records.clear();
  block.bytes.clear();
  block.base_offset = row_;
  while (error_.ok() && block.bytes.size() < block_bytes_) {
    if (next_ == chunk_rows_) {
      const Result<bool> more = NextChunk();
      error_ = more.status();
      if (!more.ok() || !*more) break;
    }
    error_ = AppendRows(block);
  }
  block.digest = Crc32c(block.bytes.data(), block.bytes.size());
  if (!block.records.empty()) return true;
  RETURN_IF_ERROR(error_);
  return false;
}

// Copies rows of the chunk until the block is full.
Status TableReader::AppendRows(Block& block) {
  TRACE_SCOPE("table_rows", profiler::Cat::kInput);
  std::array<uint64_t, kTileRows> sizes;
  const size_t count = std::min<uint64_t>(kTileRows, chunk_rows_ - next_);
  std::fill_n(sizes.begin(), count, kTableRowHeader);
  for (const auto& cells : cells_) cells->AddSizes(next_, count, sizes.data());
  size_t rows = 0;
  uint64_t end = block.bytes.size();
  for (; rows < count && end < block_bytes_ && sizes[rows] <= max_record_bytes_; ++rows) {
    block.records.push_back({static_cast<uint32_t>(end), static_cast<uint32_t>(sizes[rows])});
    end += sizes[rows];
  }
  block.bytes.Resize(end);
  std::array<char*, kTileRows> out;
  const size_t first = block.records.size() - rows;
  for (size_t i = 0; i < rows; ++i) {
    char* const begin = block.bytes.data() + block.records[first + i].begin;
    const uint64_t number = row_ + i;
    std::memcpy(begin, &number, sizeof number);
    out[i] = begin + kTableRowHeader;
  }
  for (const auto& cells : cells_) cells->Write(next_, rows, out.data());
  next_ += rows;
  row_ += rows;
  if (rows == count || end >= block_bytes_) return {};
  return Corrupt(TableName(source_) + ": row " + std::to_string(row_ + 1) + ": expected at most " +
                 std::to_string(max_record_bytes_) + " bytes, found " +
                 std::to_string(sizes[rows]) + "; if it is right, raise max_record_bytes");
}

Result<std::unique_ptr<BlockSource>> OpenBlocks(const std::string& source,
                                                const BlockOptions& options) {
  if (options.framing == Framing::kTable) {
    ASSIGN_OR_RETURN(std::unique_ptr<BlockSource> table, TableReader::Open(source, options));
    return table;
  }
  ASSIGN_OR_RETURN(std::unique_ptr<BlockSource> reader, BlockReader::Open(source, options));
  return reader;
}

}  // namespace millrace::io
