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

TEST(HostPort, LoopbackAddressesAreKnown) {
  for (const char* host : {"127.0.0.1", "127.1.2.3", "::1", "localhost"}) {
    EXPECT_TRUE(IsLoopback(host)) << host;
  }
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "127.0.0.1.example", "node1", "",
                           "126.0.0.1", "::ffff:10.0.0.1"}) {
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
}

}  // namespace
}  // namespace millrace::ps
