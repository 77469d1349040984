// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/bench_data.h"

#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "io/base/random.h"
#include "io/example/example_encoder.h"
#include "io/record/record_writer.h"

namespace millrace::bench {
namespace {

// 13 bucketed integers, then the 26 categories of the public display-advertising data, together
// kNumFeatures.
constexpr std::array<uint64_t, kFields> kCardinality = {
    60,   60,    60,       60,      60,   60,   60,    60,      60, 60,    60,     60,      60,
    1460, 583,   10130448, 2202608, 305,  24,   12517, 633,     3,  93145, 5683,   8351593, 3194,
    27,   14992, 5461306,  10,      5652, 2173, 4,     7046547, 18, 15,    286181, 105,     142572};

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "millrace-bench-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

std::vector<uint64_t> MakeKeys(size_t rows, uint64_t seed) {
  Random random(seed);
  std::vector<uint64_t> keys;
  keys.reserve(rows * kFields);
  for (size_t r = 0; r < rows; ++r) {
    uint64_t base = 0;
    for (const uint64_t cardinality : kCardinality) {
      const double rank =
          std::exp(random.Uniform() * std::log(static_cast<double>(cardinality) + 1)) - 1;
      const uint64_t scattered = static_cast<uint64_t>(rank) * 0x9e3779b97f4a7c15u % cardinality;
      keys.push_back(base + scattered);
      base += cardinality;
    }
  }
  return keys;
}

std::vector<std::string> MakeExamples(size_t rows, uint64_t seed) {
  const std::vector<uint64_t> keys = MakeKeys(rows, seed);
  const std::vector<float> ones(kFields, 1.0f);
  std::vector<std::string> examples(rows);
  for (size_t r = 0; r < rows; ++r) {
    io::EncodeSparseExample({}, static_cast<int64_t>(r % 4 == 0),
                            std::span(keys).subspan(r * kFields, kFields), ones, examples[r]);
  }
  return examples;
}

const std::vector<std::string>& MakeFiles(size_t rows, size_t files) {
  static const TemporaryFolder folder;
  static std::map<std::pair<size_t, size_t>, std::vector<std::string>> made;
  std::vector<std::string>& paths = made[{rows, files}];
  for (size_t f = paths.size(); f < files; ++f) {
    paths.push_back(folder.path() + "/" + std::to_string(rows) + "-" + std::to_string(f) +
                    ".tfrecord");
    auto writer = io::RecordWriter::Create(paths.back());
    if (!writer.ok()) std::abort();
    for (const std::string& example : MakeExamples(rows / files, f)) {
      if (!writer->Append(example).ok()) std::abort();
    }
    if (!writer->Close().ok()) std::abort();
  }
  return paths;
}

}  // namespace millrace::bench
