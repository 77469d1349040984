// SPDX-License-Identifier: Apache-2.0
// JSON lines as rows of named fields: a record is one object.
//
//   {"clicked": true, "user": {"age": 31, "tags": ["a", "b"]}, "price": 0.5, "note": null}
//
// A column is a member by its name. "user.age" is the member "age" of the object "user", or a
// member of the outer object that is itself called "user.age". If a name comes twice, the last one
// counts.
//
//   string              a text, unescaped; an empty one is a missing value
//   integer             an integer; from 2^63 up to below 2^64 the text of its digits, which keeps
//                       all of them (larger ones are an error)
//   other number        a double
//   true, false         the texts "true" and "false"
//   null                a missing value
//   array of these      several values; a null in it is left out
//   object, or an array inside an array, as the value of a column: an error
//
// Every record is checked as a whole: JSON of RFC 8259 in UTF-8, numbers in the range of a double.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/status.h"
#include "io/features/field_row.h"

namespace millrace::io {

// The names of a record's columns, "user.age" for a member of a member. Members that cannot be
// columns (an array with an object or array in it) are left out.
Result<std::vector<std::string>> JsonColumnNames(std::string_view record);

// Not thread-safe.
class JsonColumns final : public ColumnReader {
 public:
  explicit JsonColumns(const std::vector<std::string>& wanted);
  ~JsonColumns() override;

  // A blank record is no row. Texts are valid until the next call. Needs memory of 15 times the
  // longest record.
  Result<bool> Read(std::string_view record, FieldRow& row) override;

 private:
  class Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace millrace::io
