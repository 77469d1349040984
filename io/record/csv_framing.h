// SPDX-License-Identifier: Apache-2.0
// Where the records of CSV text end: at a newline that is not inside quotes (RFC 4180).
#pragma once

#include <cstddef>
#include <string_view>

namespace millrace::io {

struct CsvEnd {
  enum class Kind {
    kNewline,  // the record ends at the newline `at`
    kNoEnd,    // there is no newline after the last cell; at = size
    kOpen,     // the quote `at` opens a cell that is not closed
    kBroken,   // the byte `at` follows a closing quote and is neither delimiter nor line end
  };
  Kind kind = Kind::kNoEnd;
  size_t at = 0;
};

// How the first record of `text` ends, cell by cell: a quote opens a cell only as its first byte.
CsvEnd FindCsvEnd(std::string_view text, char delimiter);

size_t CountQuotes(std::string_view text);

}  // namespace millrace::io
