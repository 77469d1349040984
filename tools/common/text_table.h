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
  explicit TextTable(std::vector<TextColumn> columns) : columns_(std::move(columns)) {}
  // `cells` has one cell per column.
  void Add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  // The titles, then the rows, with two spaces between columns and no trailing spaces.
  std::string Text() const;

 private:
  std::vector<TextColumn> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace millrace::tools
