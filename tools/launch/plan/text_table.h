// Rows of cells as lines of aligned columns.
#pragma once

#include <string>
#include <vector>

namespace millrace::tools {

// The first row is the head. The last column is not padded; two spaces stand between columns.
std::string TextTable(const std::vector<std::vector<std::string>>& rows);

}  // namespace millrace::tools
