#include "ps/worker/shard_client.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "tests/ps/unused_channel.h"

namespace millrace::ps {
namespace {

constexpr int64_t kUs = 1000;

class HandClock final : public Clock {
 public:
  int64_t NowNs() override { return now_ns; }
  void Pause(int64_t ns) override { now_ns += ns; }

  int64_t now_ns = 5000 * kUs;
};

// A server that takes `answer_us` for an exchange and says what `reply` says.
struct Script {
  int64_t answer_us = 0;
  ExchangeReply reply;
};

class ScriptedTransport final : public Transport {
 public:
  ScriptedTransport(HandClock& clock, Script& script) : clock_(clock), script_(script) {}
  size_t shards() const override { return 1; }
  std::string Describe(size_t) const override { return "the server"; }
  io::Result<std::unique_ptr<Channel>> Connect(size_t) override {
    return std::unique_ptr<Channel>(std::make_unique<ScriptedChannel>(clock_, script_));
  }

 private:
  class ScriptedChannel final : public test::UnusedChannel {
   public:
    ScriptedChannel(HandClock& clock, Script& script) : clock_(clock), script_(script) {}
    io::Status Join(const JoinRequest&, JoinReply& reply) override {
      reply = {};
      return {};
    }
    io::Status SendExchange(const ExchangeRequest&) override { return {}; }
    io::Status ReceiveExchange(ExchangeReply& reply) override {
      clock_.now_ns += script_.answer_us * kUs;
      reply = script_.reply;
      return {};
    }

   private:
    HandClock& clock_;
    Script& script_;
  };

  HandClock& clock_;
  Script& script_;
};

// What a server did after its last answer is in the way of a request that comes while it does so.
TEST(ShardClient, LookingAheadIsTheServersTimeWhereTheRequestHadToWaitForIt) {
  HandClock clock;
  Script script = {.answer_us = 60, .reply = {}};
  ScriptedTransport transport(clock, script);
  ShardClient client(transport, clock, 0, {});
  JoinReply joined;
  ASSERT_TRUE(client.Connect(joined).ok());
  // An exchange that is sent, heard `reads_us` later, and takes the server 5 us, which had looked
  // ahead before it; then the worker computes for `worker_us`.
  const auto server_us = [&](int64_t ahead_us, int64_t reads_us, int64_t worker_us) {
    script.reply.server_ns = 5 * kUs;
    script.reply.ahead_ns = ahead_us * kUs;
    ExchangeReply reply;
    EXPECT_TRUE(client.Send({}, false, false).ok());
    clock.now_ns += reads_us * kUs;
    EXPECT_TRUE(client.Receive(reply).ok());
    clock.now_ns += worker_us * kUs;
    return reply.server_ns / kUs;
  };
  // Of the 60 us until the answer the server needs 5.
  EXPECT_EQ(server_us(0, 0, 10), 5);
  EXPECT_EQ(server_us(90, 0, 100), 5 + (90 + 5 - 60 - 10));
  EXPECT_EQ(server_us(90, 0, 0), 5) << "the worker took longer";
  EXPECT_EQ(server_us(0, 500, 0), 5);
  EXPECT_EQ(server_us(90, 0, 0), 5) << "the answer was read late, and the server had long finished";
}

}  // namespace
}  // namespace millrace::ps
