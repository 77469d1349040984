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

TEST_F(ExchangeHandlerTest, KeysOutsideTheShardAreRefusedAndChangeNothing) {
  StartServer(1);
  auto store = StartedWorker(Config(1));
  ExpectServes(*store);
  store.reset();
  const auto twin = Twin(Config(1));
  ASSERT_TRUE(twin);
  std::string keys;
  EncodeKeys(std::vector<uint64_t>{5, 100000}, keys);
  ExchangeRequest request;
  request.sequence = 1;
  request.pulls = true;
  request.pull_list = ListSignature(keys);
  request.pull_keys = keys;
  ExchangeReply reply;
  ASSERT_TRUE(twin->SendExchange(request).ok());
  const Status status = twin->ReceiveExchange(reply);
  EXPECT_EQ(status.message(), "key list: expected keys below 100000, found 100000");
}

}  // namespace
}  // namespace millrace::ps
