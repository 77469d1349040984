// SPDX-License-Identifier: Apache-2.0
// A table as lines of text. Each column is as wide as its widest cell.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace millrace::tools {

struct TextColumn {
  std::string title;
  bool right = false;  // aligned right, for numbers
};

class TextTable {
 public:
  explicit TextTable(std::vector<TextColumn> columns);
  // `cells` has one cell per column. Titles and cells may be untrusted: control characters are
  // escaped.
  void Add(std::vector<std::string> cells);
  // The titles, then the rows, with two spaces between columns and no trailing spaces.
  std::string Text() const;

 private:
  std::vector<TextColumn> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace millrace::tools
