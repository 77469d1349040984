// Columns of text, each as wide as its widest cell.
#pragma once

#include <string>
#include <vector>

namespace millrace::report {

struct TextColumn {
  std::string title;
  bool right = false;  // right-aligned, for numbers
};

class TextTable {
 public:
  explicit TextTable(std::vector<TextColumn> columns) : columns_(std::move(columns)) {}
  // As many cells as there are columns.
  void Add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::string Text() const;

 private:
  std::vector<TextColumn> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace millrace::report
