// SPDX-License-Identifier: Apache-2.0
// The files of a real small job, from the corpus of fuzz_run_folder.
#pragma once

#include <algorithm>
#include <map>
#include <string>

#include "tests/support/test_files.h"

namespace millrace::report {

// Name to bytes.
inline std::map<std::string, std::string> CorpusRun() {
  const std::string text = test::ReadFile(MILLRACE_SOURCE_DIR "/tests/fuzz/corpus/run_folder/job");
  std::map<std::string, std::string> files;
  for (size_t at = 0; at < text.size();) {
    const size_t name_end = text.find('\n', at);
    const size_t end = std::min(text.find("\n@@", name_end), text.size() - 1);
    files[text.substr(at + 2, name_end - at - 2)] = text.substr(name_end + 1, end - name_end - 1);
    at = end + 1;
  }
  return files;
}

inline void WriteRun(const std::map<std::string, std::string>& files,
                     const test::TemporaryFolder& folder) {
  for (const auto& [name, bytes] : files) test::WriteFile(folder / name, bytes);
}

}  // namespace millrace::report
