// SPDX-License-Identifier: Apache-2.0
// Files of serving models: no bytes crash the library that opens them and scores rows. The first
// byte tells a file as it is (0) from one that gets the head, CRCs and tail that its parts need
// (others): 2 bytes are the size of the fields, which follow; the rest is the table.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "io/base/crc32c.h"
#include "io/base/status.h"
#include "millrace/score.h"
#include "sparse/score/serving_format.h"

namespace millrace::score {
namespace {

template <typename T>
void Append(T number, std::string& out) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

std::string MakeFile(std::string_view parts) {
  const size_t size = parts.size() < 2 ? 0
                                       : static_cast<unsigned char>(parts[0]) +
                                             256u * static_cast<unsigned char>(parts[1]);
  parts.remove_prefix(std::min<size_t>(2, parts.size()));
  const std::string_view fields = parts.substr(0, size);
  const std::string_view table = parts.substr(fields.size());
  std::string file(kServingMagic);
  file.resize(kServingHeadBytes);
  file += table;
  const std::string head = file;
  std::string end(fields);
  for (size_t at = 0; at < head.size(); at += kServingBlockBytes) {
    Append(MaskedCrc32c(head.data() + at, std::min(kServingBlockBytes, head.size() - at)), end);
  }
  Append(uint64_t{table.size()}, end);
  Append(static_cast<uint32_t>(kServingBlockBytes), end);
  Append(static_cast<uint32_t>(fields.size()), end);
  Append(kServingVersion, end);
  Append(MaskedCrc32c(end.data(), end.size()), end);
  end += kServingMagic;
  return file + end;
}

// The code of scoring some rows of each form.
void Score(millrace_scorer* scorer) {
  const uint64_t begin[] = {0, 3, 3, 6}, one_begin[] = {0, 3};
  const uint64_t keys[] = {0, 1, 1000, 7, uint64_t{1} << 40, UINT64_MAX - 1};
  const float values[] = {1, 0.5f, -2, 1e30f, 3, 1};
  const millrace_keys rows = {3, begin, keys, values, nullptr};
  const millrace_keys context = {1, one_begin, keys, nullptr, nullptr};
  double scores[3], again[3];
  millrace_score_error error;
  CHECK(millrace_score_keys(scorer, &rows, 1, scores, nullptr, &error) == 0);
  CHECK(millrace_score_key_candidates(scorer, &context, &rows, 1, again, nullptr, &error) == 0);
  const std::string_view json = R"({"a": ["x", "1"], "b": 2.5, "c": null})";
  const std::string lines = std::string(json) + "\n{\"b\": 3}\n";
  size_t count = 0;
  const int code = millrace_score_json(scorer, lines.data(), lines.size(), 1, scores, 3, &count,
                                       nullptr, &error);
  CHECK(code == MILLRACE_SCORE_OK || code == MILLRACE_SCORE_INVALID);
  const int candidates =
      millrace_score_json_candidates(scorer, json.data(), json.size(), lines.data(), lines.size(),
                                     1, again, 3, &count, nullptr, &error);
  CHECK(candidates == MILLRACE_SCORE_OK || candidates == MILLRACE_SCORE_INVALID);
  // The first candidate is the context once more.
  if (code == MILLRACE_SCORE_OK && candidates == MILLRACE_SCORE_OK) {
    CHECK(std::memcmp(scores, again, sizeof *scores) == 0 || std::isnan(scores[0]));
  }
}

}  // namespace
}  // namespace millrace::score

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string bytes = data[0] == 0 ? std::string(input) : score::MakeFile(input);
  static const int fd = ::memfd_create("fuzz-serving", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(fd);
  CHECK(fd >= 0 && ::ftruncate(fd, 0) == 0);
  CHECK(::pwrite(fd, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  millrace_score_error error;
  const bool verified = millrace_score_verify(path.c_str(), &error) == 0;
  for (const uint32_t flags : {0u, uint32_t{MILLRACE_SCORE_COPY}}) {
    millrace_scorer* scorer = nullptr;
    const int code = millrace_score_open(path.c_str(), flags, &scorer, &error);
    CHECK(code == MILLRACE_SCORE_OK || !verified);
    CHECK((code == MILLRACE_SCORE_OK) == (scorer != nullptr));
    if (code != MILLRACE_SCORE_OK) {
      CHECK(std::strstr(error.message, path.c_str()) == error.message);
      continue;
    }
    score::Score(scorer);
    millrace_score_info info;
    CHECK(millrace_score_get_info(scorer, &info, &error) == 0);
    millrace_score_free_info(&info);
    millrace_score_close(scorer);
  }
  return 0;
}
