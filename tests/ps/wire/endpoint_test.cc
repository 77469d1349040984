// SPDX-License-Identifier: Apache-2.0
#include "ps/wire/endpoint.h"

#include <gtest/gtest.h>

namespace millrace::ps {
namespace {

TEST(HostPort, AddressesAreParsed) {
  EXPECT_EQ(ParseHostPort("a:7000")->port, 7000);
  EXPECT_EQ(ParseHostPort("[::1]:80")->host, "::1");
  for (const char* bad : {"", "a", ":1", "a:", "a:x", "a:70000", "a:-1", "a:1x"}) {
    EXPECT_FALSE(ParseHostPort(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace millrace::ps
