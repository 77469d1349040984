// SPDX-License-Identifier: Apache-2.0
// Helpers of the tests of text parsers: files as lines, and random mutations of lines.
#pragma once

#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/random.h"
#include "tests/support/test_files.h"

namespace millrace::test {

inline std::string SharedFile(const std::string& name) {
  return std::string(MILLRACE_SHARED_DATA) + "/" + name;
}

inline std::vector<std::string> ReadLines(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// A few bytes replaced, dropped or doubled; some of them by what means something to the parsers.
inline std::string Mutate(std::string line, Random& random) {
  static constexpr std::string_view kMeaningful = " \t\r:|#,+-.eE0123456789'naifxqd\"\\\0\xff";
  for (uint64_t edits = random.Below(4); edits > 0 && !line.empty(); --edits) {
    const size_t at = random.Below(line.size());
    switch (random.Below(4)) {
      case 0:
        line[at] = kMeaningful[random.Below(kMeaningful.size())];
        break;
      case 1:
        line.erase(at, 1 + random.Below(5));
        break;
      case 2:
        line.insert(at, line.substr(random.Below(line.size()), random.Below(12)));
        break;
      default:
        line[at] = static_cast<char>(random.Below(256));
    }
  }
  return line;
}

}  // namespace millrace::test
