// SPDX-License-Identifier: Apache-2.0
// How a CSV file is written: its delimiter, whether it has a header, the names of its columns.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/base/status.h"

namespace millrace::io {

struct CsvDialect {
  char delimiter = ',';  // or '\t', ';', '|'
  std::vector<std::string> columns = {};
  bool has_header = false;
  // The first record of the file if that is its header, byte by byte and without line end: for
  // BlockOptions::csv_header.
  std::string header = {};
};

enum class CsvHeader { kDetect, kYes, kNo };

struct CsvDialectOptions {
  char delimiter = '\0';  // '\0': found by the content
  // If given: the file has no header, unless its first record consists of exactly these names.
  std::vector<std::string> columns = {};
  CsvHeader header = CsvHeader::kDetect;
};

// Accepts ",", ";", "|", "tab" and a tab itself.
Result<char> CsvDelimiterFromName(std::string_view name);

// From the first decompressed bytes of a file; a record that they cut off is not looked at unless
// it is the only one. Columns without a name are called c1, c2, ... by their position.
//
// Delimiter: the one that gives at least two cells and the same number in all records (of the first
// 100), and of these the one with the most cells; if none does, the one with the largest share of
// records like the first. Header: the cells of the first record are distinct names, no numbers, and
// either some later cell is a number, or none of the names comes again in its column.
Result<CsvDialect> FindCsvDialect(std::string_view first_bytes,
                                  const CsvDialectOptions& options = {});
// By the first bytes, see ReadFirstBytes. An error names the file.
Result<CsvDialect> FindCsvDialectOfFile(const std::string& path,
                                        const CsvDialectOptions& options = {});

// Whether the bytes look like CSV: at least two cells in every record.
bool LooksLikeCsv(std::string_view first_bytes);

// An error if the dialect lacks one of the columns `wanted`, or has it twice.
Status CheckCsvColumns(const CsvDialect& dialect, const std::vector<std::string>& wanted);

}  // namespace millrace::io
