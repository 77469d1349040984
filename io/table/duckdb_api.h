// SPDX-License-Identifier: Apache-2.0
// The C functions of DuckDB that tables are read with, loaded at run time from libduckdb.so. Their
// names and types are those of DuckDB's C API.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "io/base/status.h"

namespace millrace::io {

// Handles: pointers to structs that only DuckDB knows.
using DuckHandle = void*;

enum class DuckState : int { kSuccess = 0, kError = 1 };

// duckdb_type; the others cannot be read.
enum class DuckType : int {
  kBoolean = 1,
  kTinyint = 2,
  kSmallint = 3,
  kInteger = 4,
  kBigint = 5,
  kUTinyint = 6,
  kUSmallint = 7,
  kUInteger = 8,
  kUBigint = 9,
  kFloat = 10,
  kDouble = 11,
  kTimestamp = 12,
  kDate = 13,
  kHugeint = 16,
  kVarchar = 17,
  kBlob = 18,
  kDecimal = 19,
  kTimestampS = 20,
  kTimestampMs = 21,
  kTimestampNs = 22,
  kEnum = 23,
  kList = 24,
  kTimestampTz = 31,
  kUHugeint = 32,
  kSqlNull = 36,
};

// duckdb_statement_type.
constexpr int kDuckSelect = 1;

// duckdb_result. It is passed by value.
struct DuckResult {
  uint64_t deprecated_column_count;
  uint64_t deprecated_row_count;
  uint64_t deprecated_rows_changed;
  void* deprecated_columns;
  char* deprecated_error_message;
  void* internal_data;
};

// duckdb_string_t: the bytes, if there are at most 12; else the first 4 and a pointer to all.
struct alignas(8) DuckString {
  static constexpr uint32_t kInlined = 12;
  uint32_t size;
  char bytes[kInlined];
  const char* data() const {
    if (size <= kInlined) return bytes;
    const char* pointer;
    std::memcpy(&pointer, bytes + 4, sizeof pointer);
    return pointer;
  }
};
static_assert(sizeof(DuckString) == 16);

// duckdb_list_entry.
struct DuckList {
  uint64_t offset;  // in the vector of all elements
  uint64_t size;
};

// F(name without duckdb_, type of the result, parameters)
#define MILLRACE_DUCKDB_FUNCTIONS(F)                                                 \
  F(library_version, const char*, ())                                                \
  F(free, void, (void*))                                                             \
  F(create_config, DuckState, (DuckHandle*))                                         \
  F(set_config, DuckState, (DuckHandle, const char* name, const char* value))        \
  F(destroy_config, void, (DuckHandle*))                                             \
  F(open_ext, DuckState, (const char* path, DuckHandle*, DuckHandle config, char**)) \
  F(close, void, (DuckHandle*))                                                      \
  F(connect, DuckState, (DuckHandle, DuckHandle*))                                   \
  F(disconnect, void, (DuckHandle*))                                                 \
  F(extract_statements, uint64_t, (DuckHandle, const char* sql, DuckHandle*))        \
  F(extract_statements_error, const char*, (DuckHandle))                             \
  F(destroy_extracted, void, (DuckHandle*))                                          \
  F(prepare_extracted_statement, DuckState,                                          \
    (DuckHandle, DuckHandle extracted, uint64_t number, DuckHandle*))                \
  F(prepare_error, const char*, (DuckHandle))                                        \
  F(destroy_prepare, void, (DuckHandle*))                                            \
  F(prepared_statement_type, int, (DuckHandle))                                      \
  F(prepared_statement_column_count, uint64_t, (DuckHandle))                         \
  F(prepared_statement_column_name, const char*, (DuckHandle, uint64_t))             \
  F(prepared_statement_column_logical_type, DuckHandle, (DuckHandle, uint64_t))      \
  F(execute_prepared, DuckState, (DuckHandle, DuckResult*))                          \
  F(pending_prepared_streaming, DuckState, (DuckHandle, DuckHandle*))                \
  F(pending_error, const char*, (DuckHandle))                                        \
  F(execute_pending, DuckState, (DuckHandle, DuckResult*))                           \
  F(destroy_pending, void, (DuckHandle*))                                            \
  F(result_error, const char*, (DuckResult*))                                        \
  F(destroy_result, void, (DuckResult*))                                             \
  F(fetch_chunk, DuckHandle, (DuckResult))                                           \
  F(data_chunk_get_size, uint64_t, (DuckHandle))                                     \
  F(data_chunk_get_vector, DuckHandle, (DuckHandle, uint64_t))                       \
  F(destroy_data_chunk, void, (DuckHandle*))                                         \
  F(vector_get_data, void*, (DuckHandle))                                            \
  F(vector_get_validity, uint64_t*, (DuckHandle))                                    \
  F(list_vector_get_child, DuckHandle, (DuckHandle))                                 \
  F(get_type_id, DuckType, (DuckHandle))                                             \
  F(decimal_scale, uint8_t, (DuckHandle))                                            \
  F(decimal_internal_type, DuckType, (DuckHandle))                                   \
  F(enum_internal_type, DuckType, (DuckHandle))                                      \
  F(enum_dictionary_size, uint32_t, (DuckHandle))                                    \
  F(enum_dictionary_value, char*, (DuckHandle, uint64_t))                            \
  F(list_type_child_type, DuckHandle, (DuckHandle))                                  \
  F(destroy_logical_type, void, (DuckHandle*))

// Const calls are thread-safe.
struct DuckDbApi {
#define MILLRACE_DECLARE(name, type, parameters) type(*name) parameters = nullptr;
  MILLRACE_DUCKDB_FUNCTIONS(MILLRACE_DECLARE)
#undef MILLRACE_DECLARE
};

// Loads the library `file`. If that is empty: libduckdb.so of the loader's path (LD_LIBRARY_PATH,
// /etc/ld.so.conf), else data/duckdb/libduckdb.so in the present folder, else lib/ or data/duckdb/
// beside the folder of the program. An error says where it was looked for and how to get it. A
// library stays loaded. Shared: by the readers of all threads.
Result<std::shared_ptr<const DuckDbApi>> LoadDuckDb(const std::string& file);

}  // namespace millrace::io
