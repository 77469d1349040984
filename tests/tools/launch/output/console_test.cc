// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/output/console.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/support/test_files.h"

namespace millrace::launch {
namespace {

class ConsoleTest : public testing::Test {
 protected:
  Console Make(bool color, const std::string& log_dir = "") {
    out_ = UniqueFd(::open((folder_ / "out").c_str(), O_WRONLY | O_CREAT, 0600));
    err_ = UniqueFd(::open((folder_ / "err").c_str(), O_WRONLY | O_CREAT, 0600));
    const ConsoleOptions options = {.out = out_.get(),
                                    .err = err_.get(),
                                    .color_out = color,
                                    .color_err = color,
                                    .log_dir = log_dir};
    Result<Console> console = Console::Create(options, {"ps 0", "worker 10"});
    CHECK(console.ok());
    return std::move(*console);
  }

  test::TemporaryFolder folder_;
  UniqueFd out_, err_;
};

TEST_F(ConsoleTest, LinesHaveTheNameOfTheirProcess) {
  Console console = Make(false);
  console.ProcessLine(0, Stream::kOut, "listening");
  console.ProcessLine(1, Stream::kErr, "bad\x01");
  console.Flush();
  EXPECT_EQ(test::ReadFile(folder_ / "out"), "ps 0      | listening\n");
  EXPECT_EQ(test::ReadFile(folder_ / "err"), "worker 10 | bad\\x01\n");
}

TEST_F(ConsoleTest, HeldLinesComeAfterTheTables) {
  Console console = Make(false);
  console.Hold();
  console.ProcessLine(0, Stream::kOut, "early");
  console.Print("table\n");
  console.Release();
  console.ProcessLine(0, Stream::kOut, "late");
  console.Flush();
  EXPECT_EQ(test::ReadFile(folder_ / "out"), "table\nps 0      | early\nps 0      | late\n");
}

TEST_F(ConsoleTest, ColorsAreUsedOnRequest) {
  Console console = Make(true);
  console.ProcessLine(0, Stream::kOut, "x");
  console.Flush();
  EXPECT_EQ(test::ReadFile(folder_ / "out"), "\033[32mps 0      | \033[0mx\n");
}

TEST_F(ConsoleTest, LogFilesHaveUnchangedLines) {
  Console console = Make(true, folder_ / "logs/here");
  console.ProcessLine(1, Stream::kOut, "one\x01");
  console.ProcessLine(1, Stream::kErr, "two");
  console.Flush();
  EXPECT_EQ(test::ReadFile(folder_ / "logs/here/worker-10.log"), "one\x01\ntwo\n");
  EXPECT_EQ(test::ReadFile(folder_ / "logs/here/ps-0.log"), "");
}

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

TEST(NonblockingWriter, SlowReaderDoesNotMakeTheMemoryGrow) {
  int fds[2];
  ASSERT_EQ(::pipe(fds), 0);
  NonblockingWriter writer(fds[1], "pipe");
  const std::string text(4096, 'x');
  char bytes[4096];
  for (int i = 0; i < 100; ++i) writer.Append(text);  // the backlog is never empty
  for (int i = 0; i < 5000; ++i) {
    writer.Append(text);
    writer.Flush();
    ASSERT_GT(::read(fds[0], bytes, sizeof bytes), 0);
    ASSERT_GT(writer.backlog(), 0u);
  }
  EXPECT_LT(writer.memory_bytes(), 4u << 20) << "of 20 MB that were written";
  ::close(fds[0]);
  ::close(fds[1]);
}

TEST_F(ConsoleTest, ControlCharactersInNotesAndTablesAreEscaped) {
  Console console = Make(false);
  console.Note("worker 0 on \x1b]0;host\x07: failed");
  console.Print("host\nna\x1b[31mme\xc2\x9b\t1\n");
  console.Flush();
  EXPECT_EQ(test::ReadFile(folder_ / "err"),
            "millrace-launch: worker 0 on \\x1b]0;host\\x07: failed\n");
  EXPECT_EQ(test::ReadFile(folder_ / "out"), "host\nna\\x1b[31mme\\xc2\\x9b\t1\n");
}

TEST_F(ConsoleTest, LogIsNotWrittenThroughALinkOrToAFifo) {
  std::filesystem::create_directory(folder_ / "logs");
  test::WriteFile(folder_ / "precious", "text");
  const ConsoleOptions options = {.log_dir = folder_ / "logs"};
  std::filesystem::create_symlink(folder_ / "precious", folder_ / "logs/ps-0.log");
  EXPECT_NE(Console::Create(options, {"ps 0"}).status().message().find("found a symbolic link"),
            std::string::npos);
  EXPECT_EQ(test::ReadFile(folder_ / "precious"), "text");
  ASSERT_EQ(::mkfifo((folder_ / "logs/ps-1.log").c_str(), 0600), 0);
  EXPECT_NE(Console::Create(options, {"ps 1"}).status().message().find("expected a regular file"),
            std::string::npos);
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
