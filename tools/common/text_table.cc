// SPDX-License-Identifier: Apache-2.0
#include "tools/common/text_table.h"

#include <algorithm>

#include "io/base/printable.h"

namespace millrace::tools {
namespace {

// The number of UTF-8 characters.
size_t Width(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

TextTable::TextTable(std::vector<TextColumn> columns) : columns_(std::move(columns)) {
  for (TextColumn& column : columns_) column.title = Printable(column.title);
}

void TextTable::Add(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = Printable(cell);
  rows_.push_back(std::move(cells));
}

std::string TextTable::Text() const {
  std::vector<size_t> widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    size_t width = Width(columns_[c].title);
    for (const auto& row : rows_) width = std::max(width, Width(row[c]));
    widths.push_back(width);
  }
  std::string text;
  const auto add_line = [&](const auto& cell_of) {
    std::string line;
    for (size_t c = 0; c < columns_.size(); ++c) {
      const std::string& cell = cell_of(c);
      const std::string space(widths[c] - Width(cell), ' ');
      if (c > 0) line += "  ";
      line += columns_[c].right ? space + cell : cell + space;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  add_line([&](size_t c) -> const std::string& { return columns_[c].title; });
  for (const auto& row : rows_) add_line([&](size_t c) -> const std::string& { return row[c]; });
  return text;
}

}  // namespace millrace::tools
