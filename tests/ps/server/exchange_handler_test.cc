// SPDX-License-Identifier: Apache-2.0
#include "ps/server/exchange_handler.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ps/wire/key_codec.h"
#include "tests/support/server_fixture.h"

namespace millrace::ps {
namespace {

class ExchangeHandlerTest : public ServerTest {};

// What a server says to a pull of these keys.
Status PullOf(Channel& channel, const std::vector<uint64_t>& list) {
  std::string keys;
  EncodeKeys(list, keys);
  ExchangeRequest request;
  request.sequence = 1;
  request.pulls = true;
  request.pull_list = ListSignature(keys);
  request.pull_keys = keys;
  ExchangeReply reply;
  EXPECT_TRUE(channel.SendExchange(request).ok());
  return channel.ReceiveExchange(reply);
}

TEST_F(ExchangeHandlerTest, KeysOutsideTheShardAreRefusedAndChangeNothing) {
  StartServer(1);
  auto store = StartedWorker(Config(1));
  ExpectServes(*store);
  store.reset();
  const auto twin = Twin(Config(1));
  ASSERT_TRUE(twin);
  EXPECT_EQ(PullOf(*twin, {5, 100000}).message(),
            "key list: expected keys below 100000, found 100000");
}

TEST_F(ExchangeHandlerTest, InterceptIsRefusedByAModelWithoutOne) {
  StartServer(1);
  JobConfig config = Config(1);
  config.intercept = false;
  auto store = StartedWorker(config);
  ExpectServes(*store);
  store.reset();
  const auto twin = Twin(config);
  ASSERT_TRUE(twin);
  EXPECT_EQ(PullOf(*twin, {5, io::kInterceptKey}).message(),
            "key list: expected no intercept, which this shard does not have");
}

}  // namespace
}  // namespace millrace::ps
