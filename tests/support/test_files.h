// SPDX-License-Identifier: Apache-2.0
// Files and folders for tests.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace millrace::test {

// A folder that the destructor removes.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(
      const std::filesystem::path& in = std::filesystem::temp_directory_path()) {
    std::string name = (in / "millrace-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

// The same in memory, where the system has such a place: syncing a file then costs nothing.
class MemoryFolder : public TemporaryFolder {
 public:
  MemoryFolder()
      : TemporaryFolder(std::filesystem::is_directory("/dev/shm")
                            ? std::filesystem::path("/dev/shm")
                            : std::filesystem::temp_directory_path()) {}
};

inline void WriteFile(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string ReadFile(const std::string& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

// Whether the folder of real data exists.
inline bool HaveSharedData() { return std::filesystem::is_directory(MILLRACE_SHARED_DATA); }
#define SKIP_WITHOUT_SHARED_DATA()         \
  if (!::millrace::test::HaveSharedData()) \
  GTEST_SKIP() << "no folder " MILLRACE_SHARED_DATA ": the tests on real data are left out"

}  // namespace millrace::test
