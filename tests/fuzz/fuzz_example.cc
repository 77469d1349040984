// SPDX-License-Identifier: Apache-2.0
// The fast example decoder against libprotobuf, at every level of instructions that the machine
// has.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tests/support/example_decoder_oracle.h"
#include "tests/support/feature_view_oracle.h"

namespace {

using millrace::CpuLevel;

void Check(std::string_view record, const millrace::io::ExampleDecoderOptions& options,
           CpuLevel level) {
  millrace::io::ExampleDecoder decoder(options, level);
  const std::string difference = millrace::test::CompareDecoders(record, decoder, options);
  if (difference.empty()) return;
  std::fprintf(stderr, "%s: %s\n", millrace::CpuLevelName(level), difference.c_str());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  millrace::test::SilenceProtobuf();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 4096) return 0;
  const std::string_view record(reinterpret_cast<const char*>(data), size);
  for (const CpuLevel level : {CpuLevel::kPlain, CpuLevel::kAvx2, CpuLevel::kAvx512}) {
    if (level > millrace::DetectCpuLevel()) continue;
    Check(record, {}, level);
    Check(record, {.num_fields = 3}, level);
    Check(record, {.names = {.weight = "weight"}, .num_features = 1 << 20}, level);
  }
  return 0;
}
