// SPDX-License-Identifier: Apache-2.0
// The general decoder against libprotobuf: any bytes, same acceptance, same content.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tests/support/feature_view_oracle.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  millrace::test::SilenceProtobuf();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // Kept between inputs: what one record leaves behind must not show in the next.
  static millrace::io::ExampleView view;
  const std::string_view record(reinterpret_cast<const char*>(data), size);
  const std::string difference = millrace::test::CompareWithProtobuf(record, view);
  if (!difference.empty()) {
    std::fprintf(stderr, "%s\n", difference.c_str());
    std::abort();
  }
  millrace::io::DetectRecordKind(record, view);
  return 0;
}
