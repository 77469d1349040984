// A connection on which nothing may be asked: tests' own channels do what they need of it.
#pragma once

#include <string>

#include "ps/worker/channel.h"

namespace millrace::ps::test {

class UnusedChannel : public Channel {
 public:
  io::Status Join(const JoinRequest&, JoinReply&) override { return Unused(); }
  io::Status Start(bool, StartReply&) override { return Unused(); }
  io::Status SendExchange(const ExchangeRequest&) override { return Unused(); }
  io::Status ReceiveExchange(ExchangeReply&) override { return Unused(); }
  io::Status Stop() override { return Unused(); }
  io::Status Finish() override { return Unused(); }
  io::Status Drained(std::string&) override { return Unused(); }
  io::Status Leave() override { return Unused(); }
  io::Status Checkpoint(uint64_t, const std::string&, bool&) override { return Unused(); }
  io::Status Restore(uint64_t, bool&) override { return Unused(); }
  io::Status ChiefState(std::string&) override { return Unused(); }
  io::Status Entries(int64_t, EntriesReply&) override { return Unused(); }
  io::Status Load(const std::string&) override { return Unused(); }
  io::Status Stats(StatsReply&) override { return Unused(); }
  io::Status InitDense(const DenseCall&) override { return Unused(); }
  io::Status PushDense(const DenseCall&) override { return Unused(); }
  io::Status PullDense(const DenseCall&, DenseReply&) override { return Unused(); }
  uint64_t bytes_sent() const override { return 0; }
  uint64_t bytes_received() const override { return 0; }

 private:
  static io::Status Unused() { return io::Invalid("this test does not use that"); }
};

}  // namespace millrace::ps::test
