// The boxes of a graph in the DOT language, as the nets' trainer writes it.
#pragma once

#include <string>
#include <vector>

namespace millrace::tools {

struct DotBox {
  std::string name;
  std::vector<std::string> lines;  // of its label
};

// In the file's order. What is no box with a label is passed over.
std::vector<DotBox> ReadDotBoxes(const std::string& dot);

}  // namespace millrace::tools
