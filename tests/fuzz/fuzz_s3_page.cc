// SPDX-License-Identifier: Apache-2.0
// What a server of remote files sends: lists of objects, errors and Content-Range.
#include <string_view>

#include "io/base/status.h"
#include "io/record/remote_source.h"
#include "io/record/s3.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  using namespace millrace::io;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto page = ParseS3Page(text); page.ok()) {
    for (const S3Object& object : page->objects) CHECK(!object.key.empty() && object.bytes >= 0);
  }
  CHECK(DescribeS3Error(text).size() <= 8 * size);
  if (const auto range = ParseContentRange(std::string(text)); range.ok()) {
    CHECK(range->begin >= 0 && range->begin < range->end);
    CHECK(range->total < 0 || range->end <= range->total);
  }
  return 0;
}
