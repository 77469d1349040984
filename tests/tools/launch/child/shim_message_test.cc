// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/child/shim_message.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <string_view>

namespace millrace::launch {
namespace {

// Reads a whole task from bytes that come in pieces of `size`.
Result<ShimTask> ReadTask(const std::string& bytes, size_t size) {
  ShimMessageReader reader;
  ShimTask task;
  for (size_t begin = 0; begin < bytes.size(); begin += size) {
    reader.Feed(std::string_view(bytes).substr(begin, size));
    while (true) {
      ASSIGN_OR_RETURN(const auto message, reader.Next());
      if (!message) break;
      ASSIGN_OR_RETURN(const bool complete, AddToTask(*message, task));
      if (complete) return task;
    }
  }
  return Corrupt("the task is not complete");
}

TEST(ShimMessage, TaskArrivesWholeInPiecesOfAnySize) {
  const ShimTask task = {.directory = "/a b", .command = {"x", "", "--y=\n"}, .token = "secret"};
  const std::string bytes = EncodeTask(task);
  for (size_t size = 1; size <= bytes.size(); ++size) {
    const Result<ShimTask> read = ReadTask(bytes, size);
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(read->directory, task.directory);
    EXPECT_EQ(read->command, task.command);
    EXPECT_EQ(read->token, task.token);
  }
  for (size_t cut = 0; cut < bytes.size(); ++cut)
    EXPECT_FALSE(ReadTask(bytes.substr(0, cut), 3).ok()) << cut;
}

TEST(ShimMessage, InvalidBytesAreRejected) {
  EXPECT_FALSE(ReadTask("hello, shim", 4).ok());
  EXPECT_FALSE(ReadTask(std::string("A\xff\xff\xff\xff", 5), 5).ok()) << "4 GB";
  EXPECT_FALSE(ReadTask(std::string("G\0\0\0\0", 5), 5).ok()) << "no command";
  EXPECT_FALSE(ReadTask(EncodeSignal(SIGTERM), 9).ok()) << "a signal before the start";
}

}  // namespace
}  // namespace millrace::launch
