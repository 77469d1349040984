// SPDX-License-Identifier: Apache-2.0
#include "io/table/table_query.h"

#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "profiler/trace.h"

namespace millrace::io {
namespace {

constexpr std::string_view kQueryPrefix = "sql:";

constexpr std::pair<const char*, const char*> kSettings[] = {
    {"threads", "1"},
    {"preserve_insertion_order", "true"},
    // No network unless the query asks for it.
    {"autoinstall_known_extensions", "false"},
};

std::string Quoted(std::string_view text, char quote) {
  std::string quoted(1, quote);
  for (const char c : text) quoted += c == quote ? std::string(2, c) : std::string(1, c);
  return quoted + quote;
}

// DuckDB takes *, ? and [ in the name of a file for a pattern.
std::string WithoutPatterns(std::string_view path) {
  std::string escaped;
  for (const char c : path) {
    const bool is_special = c == '*' || c == '?' || c == '[';
    escaped += is_special ? std::string{'[', c, ']'} : std::string(1, c);
  }
  return escaped;
}

std::string SelectFrom(const std::string& path, const std::vector<std::string>& columns) {
  std::string list;
  for (const std::string& column : columns)
    list += (list.empty() ? "" : ", ") + Quoted(column, '"');
  return "SELECT " + (list.empty() ? "*" : list) + " FROM read_parquet(" +
         Quoted(WithoutPatterns(path), '\'') + ")";
}

Status CheckFile(const std::string& path) {
  struct stat info {};
  if (path != "-" && ::stat(path.c_str(), &info) != 0)
    return IoError(path + ": cannot open", errno);
  if (path != "-" && S_ISREG(info.st_mode)) return {};
  return Invalid((path == "-" ? "standard input" : path) +
                 ": expected a regular file: a Parquet file is read from its end");
}

}  // namespace

bool IsQuery(std::string_view source) { return source.starts_with(kQueryPrefix); }

std::string TableName(const std::string& source) {
  constexpr size_t kShown = 100;
  if (!IsQuery(source) || source.size() <= kShown) return source;
  return source.substr(0, kShown) + "...";
}

Result<std::unique_ptr<TableQuery>> TableQuery::Open(std::shared_ptr<const DuckDbApi> duckdb,
                                                     const std::string& source,
                                                     const std::vector<std::string>& columns) {
  const bool is_query = IsQuery(source);
  if (!is_query) RETURN_IF_ERROR(CheckFile(source));
  auto query = std::make_unique<TableQuery>(Private{}, std::move(duckdb), source);
  RETURN_IF_ERROR(query->OpenDatabase());
  RETURN_IF_ERROR(
      query->Prepare(is_query ? source.substr(kQueryPrefix.size()) : SelectFrom(source, columns)));
  return query;
}

TableQuery::TableQuery(Private, std::shared_ptr<const DuckDbApi> duckdb, std::string source)
    : duckdb_(std::move(duckdb)), source_(std::move(source)) {}

TableQuery::~TableQuery() {
  for (DuckHandle& type : types_) duckdb_->destroy_logical_type(&type);
  if (chunk_) duckdb_->destroy_data_chunk(&chunk_);
  duckdb_->destroy_result(&result_);
  duckdb_->destroy_prepare(&prepared_);
  duckdb_->disconnect(&connection_);
  duckdb_->close(&database_);
}

Status TableQuery::Error(const char* what) const {
  return Invalid(TableName(source_) + ": DuckDB: " + (what && *what ? what : "unknown error"));
}

Status TableQuery::OpenDatabase() {
  DuckHandle config = nullptr;
  char* problem = nullptr;
  bool good = duckdb_->create_config(&config) == DuckState::kSuccess;
  for (const auto& [name, value] : kSettings) {
    good = good && duckdb_->set_config(config, name, value) == DuckState::kSuccess;
  }
  good = good && duckdb_->open_ext(nullptr, &database_, config, &problem) == DuckState::kSuccess &&
         duckdb_->connect(database_, &connection_) == DuckState::kSuccess;
  duckdb_->destroy_config(&config);
  const Status opened = good ? Status() : Error(problem ? problem : "cannot open a database");
  if (problem) duckdb_->free(problem);
  return opened;
}

// Runs all statements but the last, and prepares that.
Status TableQuery::Prepare(const std::string& sql) {
  DuckHandle statements = nullptr;
  const uint64_t count = duckdb_->extract_statements(connection_, sql.c_str(), &statements);
  Status prepared;
  if (count == 0) {
    const char* const problem = duckdb_->extract_statements_error(statements);
    prepared = Error(problem ? problem : "expected a SELECT, found no statement");
  }
  for (uint64_t i = 0; i < count && prepared.ok(); ++i) {
    prepared = PrepareStatement(statements, i);
    if (!prepared.ok() || i + 1 == count) break;
    DuckResult done = {};
    if (duckdb_->execute_prepared(prepared_, &done) != DuckState::kSuccess) {
      prepared = Error(duckdb_->result_error(&done));
    }
    duckdb_->destroy_result(&done);
  }
  duckdb_->destroy_extracted(&statements);
  RETURN_IF_ERROR(prepared);
  if (duckdb_->prepared_statement_type(prepared_) != kDuckSelect) {
    return Invalid(TableName(source_) + ": expected a SELECT as the last statement of the query");
  }
  for (uint64_t i = 0; i < duckdb_->prepared_statement_column_count(prepared_); ++i) {
    const char* const name = duckdb_->prepared_statement_column_name(prepared_, i);
    names_.emplace_back(name);
    duckdb_->free(const_cast<char*>(name));
    types_.push_back(duckdb_->prepared_statement_column_logical_type(prepared_, i));
  }
  return {};
}

Status TableQuery::PrepareStatement(DuckHandle statements, uint64_t number) {
  duckdb_->destroy_prepare(&prepared_);
  if (duckdb_->prepare_extracted_statement(connection_, statements, number, &prepared_) ==
      DuckState::kSuccess) {
    return {};
  }
  return Error(duckdb_->prepare_error(prepared_));
}

// Runs the query up to its first rows.
Status TableQuery::Start() {
  TRACE_SCOPE("start_query", profiler::Cat::kInput);
  started_ = true;
  DuckHandle pending = nullptr;
  Status status;
  if (duckdb_->pending_prepared_streaming(prepared_, &pending) != DuckState::kSuccess) {
    status = Error(duckdb_->pending_error(pending));
  } else if (duckdb_->execute_pending(pending, &result_) != DuckState::kSuccess) {
    status = Error(duckdb_->result_error(&result_));
  }
  duckdb_->destroy_pending(&pending);
  return status;
}

Result<bool> TableQuery::Fetch() {
  if (ended_) return false;
  ended_ = true;  // unless there is a chunk
  if (!started_) RETURN_IF_ERROR(Start());
  TRACE_SCOPE("fetch_chunk", profiler::Cat::kInput);
  if (chunk_) duckdb_->destroy_data_chunk(&chunk_);
  do {
    if (chunk_) duckdb_->destroy_data_chunk(&chunk_);
    chunk_ = duckdb_->fetch_chunk(result_);
  } while (chunk_ && rows() == 0);
  ended_ = chunk_ == nullptr;
  if (!ended_) return true;
  const char* const problem = duckdb_->result_error(&result_);
  if (problem && *problem) return Error(problem);
  return false;
}

Result<uint64_t> TableQuery::ParquetChunkBytes(const std::vector<std::string>& columns) {
  // "a" or, for the elements of a list, "a, list, element". A value takes its bytes and 16 more.
  std::string selected;
  for (const std::string& column : columns) {
    selected += (selected.empty() ? " WHERE " : " OR ") +
                ("path_in_schema = " + Quoted(column, '\'')) + " OR starts_with(path_in_schema, " +
                Quoted(column + ", ", '\'') + ")";
  }
  const std::string group =
      "SELECT sum(greatest(total_uncompressed_size, 0)::DOUBLE + 16.0 * greatest(num_values, 0)) * "
      "least(1.0, 2048.0 / greatest(any_value(row_group_num_rows), 1)) AS bytes "
      "FROM parquet_metadata(" +
      Quoted(WithoutPatterns(source_), '\'') + ")" + selected + " GROUP BY row_group_id";
  return ReadNumber("SELECT least(coalesce(max(bytes), 0), 1e18)::UBIGINT FROM (" + group + ")");
}

// The number that a query of one row and one column gives.
Result<uint64_t> TableQuery::ReadNumber(const std::string& sql) {
  DuckHandle statements = nullptr, prepared = nullptr;
  DuckResult result = {};
  Result<uint64_t> number = uint64_t{0};
  duckdb_->extract_statements(connection_, sql.c_str(), &statements);
  if (duckdb_->prepare_extracted_statement(connection_, statements, 0, &prepared) !=
      DuckState::kSuccess) {
    number = Error(duckdb_->prepare_error(prepared));
  } else if (duckdb_->execute_prepared(prepared, &result) != DuckState::kSuccess) {
    number = Error(duckdb_->result_error(&result));
  } else if (DuckHandle chunk = duckdb_->fetch_chunk(result)) {
    const DuckHandle column = duckdb_->data_chunk_get_vector(chunk, 0);
    number = *static_cast<const uint64_t*>(duckdb_->vector_get_data(column));
    duckdb_->destroy_data_chunk(&chunk);
  }
  duckdb_->destroy_result(&result);
  duckdb_->destroy_prepare(&prepared);
  duckdb_->destroy_extracted(&statements);
  return number;
}

}  // namespace millrace::io
