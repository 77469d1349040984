#include "tools/report/dot_file.h"

#include <sstream>
#include <string_view>

namespace millrace::tools {
namespace {

std::vector<std::string> LabelLines(std::string_view label) {
  std::vector<std::string> lines;
  for (size_t end = 0; end != std::string_view::npos;) {
    end = label.find("\\n");
    lines.emplace_back(label.substr(0, end));
    if (end != std::string_view::npos) label.remove_prefix(end + 2);
  }
  return lines;
}

}  // namespace

std::vector<DotBox> ReadDotBoxes(const std::string& dot) {
  constexpr std::string_view kBetween = "\" [label=\"", kEnd = "\"];";
  std::vector<DotBox> boxes;
  std::istringstream text(dot);
  for (std::string line; std::getline(text, line);) {
    const size_t name = line.find('"'), between = line.find(kBetween), end = line.rfind(kEnd);
    if (between == std::string::npos || end == std::string::npos || name >= between) continue;
    const size_t label = between + kBetween.size();
    if (label > end) continue;
    boxes.push_back({.name = line.substr(name + 1, between - name - 1),
                     .lines = LabelLines(std::string_view(line).substr(label, end - label))});
  }
  return boxes;
}

}  // namespace millrace::tools
