#include "tools/launch/output/nonblocking_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

namespace millrace::launch {
namespace {

TEST(NonblockingWriter, ReaderThatStopsReadingDoesNotBlock) {
  int fds[2];
  ASSERT_EQ(::pipe(fds), 0);
  NonblockingWriter writer(fds[1], "pipe");
  std::string text;
  for (int i = 0; i < 40000; ++i) text += "line " + std::to_string(i) + "\n";
  writer.Append(text);
  writer.Flush();  // would block if it wrote everything
  EXPECT_GT(writer.backlog(), 0u);
  std::string read;
  char bytes[8192];
  while (writer.backlog() > 0) {
    const ssize_t size = ::read(fds[0], bytes, sizeof bytes);
    ASSERT_GT(size, 0);
    read.append(bytes, static_cast<size_t>(size));
    writer.Flush();
  }
  ::close(fds[1]);
  for (ssize_t size; (size = ::read(fds[0], bytes, sizeof bytes)) > 0;)
    read.append(bytes, static_cast<size_t>(size));
  EXPECT_TRUE(read == text);
  ::close(fds[0]);
}

TEST(NonblockingWriter, FullDiskIsReportedOnceAndLostBytesAreCounted) {
  const int fd = ::open("/dev/full", O_WRONLY);
  ASSERT_GE(fd, 0);
  NonblockingWriter writer(fd, "log");
  for (int i = 0; i < 3; ++i) {
    writer.Append("12345\n");
    writer.Flush();
    EXPECT_EQ(writer.TakeError().find("log: cannot write: No space left"),
              i == 0 ? 0u : std::string::npos);
  }
  EXPECT_EQ(writer.lost_bytes(), 18u);
  EXPECT_EQ(writer.backlog(), 0u);
  ::close(fd);
}

}  // namespace
}  // namespace millrace::launch
