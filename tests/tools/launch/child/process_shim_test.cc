// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/child/process_shim.h"

#include <gtest/gtest.h>

namespace millrace::launch {
namespace {

TEST(ProcessShim, OnlyTheExactPidLineCounts) {
  EXPECT_EQ(PidFromShimLine("millrace-launch: pid 4711"), 4711);
  for (const char* line : {"millrace-launch: pid 0", "millrace-launch: pid -1", "pid 4711",
                           "millrace-launch: pid 4711x", "millrace-launch: pid "}) {
    EXPECT_FALSE(PidFromShimLine(line)) << line;
  }
}

}  // namespace
}  // namespace millrace::launch
