// What processes write, on its way to the terminal and to log files.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <numeric>

#include "tests/test_files.h"
#include "tools/launch/output/console.h"
#include "tools/launch/output/line_splitter.h"
#include "tools/launch/output/nonblocking_writer.h"
#include "tools/launch/output/printable.h"

namespace millrace::tools {
namespace {

using Lines = std::vector<std::string>;

// The lines of `text` when it comes in pieces of `size` bytes.
Lines Split(const std::string& text, size_t size = SIZE_MAX) {
  LineSplitter splitter;
  Lines lines;
  for (size_t begin = 0; begin < text.size(); begin += std::min(size, text.size()))
    splitter.Feed(std::string_view(text).substr(begin, size), 0, lines);
  splitter.Finish(lines);
  return lines;
}

TEST(LineSplitter, LinesDoNotDependOnThePiecesTheyComeIn) {
  const std::string text = "one\n\ntwo\r\nthree\rFOUR\r\r\nfive\r\n\r\nlast";
  const Lines expected = {"one", "", "two", "three", "FOUR", "five", "", "last"};
  for (size_t size = 1; size <= text.size(); ++size) EXPECT_EQ(Split(text, size), expected) << size;
}

TEST(LineSplitter, UnfinishedLineWaitsForItsEnd) {
  LineSplitter splitter;
  Lines lines;
  splitter.Feed("half", 0, lines);
  EXPECT_EQ(lines, Lines{});
  splitter.Feed(" whole\nnext", 0, lines);
  EXPECT_EQ(lines, Lines{"half whole"});
  splitter.Finish(lines);
  splitter.Finish(lines);
  EXPECT_EQ(lines, (Lines{"half whole", "next"}));
}

TEST(LineSplitter, ProgressIsShownOnceASecondAndAtItsEnd) {
  LineSplitter splitter;
  Lines lines;
  for (int percent = 0; percent <= 100; ++percent)
    splitter.Feed("\r" + std::to_string(percent) + " %", 30 * percent, lines);
  splitter.Feed("\n", 3000, lines);
  EXPECT_EQ(lines, (Lines{"0 %", "34 %", "68 %", "100 %"}));
}

TEST(LineSplitter, LongLinesAreCutBetweenCharacters) {
  const std::string line(3 * LineSplitter::kMaxLine + 5, 'x');
  const Lines lines = Split(line + "\nnext\n", 1000);
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(std::accumulate(lines.begin(), lines.begin() + 4, std::string()), line);
  EXPECT_EQ(lines[4], "next");
  for (size_t shift = 0; shift < 4; ++shift) {
    std::string text(LineSplitter::kMaxLine - 4 + shift, 'x');
    text += "\xF0\x9F\x98\x80 and more";  // four bytes
    const Lines cut = Split(text, 7);
    ASSERT_EQ(cut.size(), 2u);
    EXPECT_EQ(cut[0] + cut[1], text);
    EXPECT_EQ(Printable(cut[0]) + Printable(cut[1]), text) << shift;
  }
}

TEST(LineSplitter, ALineOfTheFullLengthIsWhole) {
  const std::string line(LineSplitter::kMaxLine, 'x');
  EXPECT_EQ(Split(line + "\n", 100), Lines{line});
  EXPECT_EQ(Split(std::string(LineSplitter::kMaxLine + 8, '\x80')).size(), 2u) << "noise";
}

TEST(Printable, TextStaysAndNoiseIsSpelt) {
  EXPECT_EQ(Printable("a\tb ü € 😀"), "a\tb ü € 😀");
  EXPECT_EQ(Printable("\x1b[2Jgone\x07"), "\\x1b[2Jgone\\x07");
  EXPECT_EQ(Printable(std::string_view("\0\x7f", 2)), "\\x00\\x7f");
  EXPECT_EQ(Printable("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(Printable("caf\xe9!"), "caf\\xe9!");
  EXPECT_EQ(Printable("\xC2\x9B"
                      "2J"),
            "\\xc2\\x9b2J")
      << "a control character of two bytes";
  EXPECT_EQ(Printable("\xE0\x80\xAF"), "\\xe0\\x80\\xaf") << "longer than need be";
  EXPECT_EQ(Printable("\xED\xA0\x80"), "\\xed\\xa0\\x80") << "half a character of UTF-16";
  EXPECT_EQ(Printable("\xF4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "beyond the last character";
  EXPECT_EQ(Printable("\xE2\x82"), "\\xe2\\x82") << "cut off";
}

TEST(Outlet, ReaderThatStopsReadingHoldsNobodyUp) {
  int fds[2];
  ASSERT_EQ(::pipe(fds), 0);
  Outlet outlet(fds[1], "pipe");
  std::string text;
  for (int i = 0; i < 40000; ++i) text += "line " + std::to_string(i) + "\n";
  outlet.Append(text);
  outlet.Flush();  // would hang for ever if it wrote all
  EXPECT_GT(outlet.backlog(), 0u);
  std::string read;
  char bytes[8192];
  while (outlet.backlog() > 0) {
    const ssize_t size = ::read(fds[0], bytes, sizeof bytes);
    ASSERT_GT(size, 0);
    read.append(bytes, static_cast<size_t>(size));
    outlet.Flush();
  }
  ::close(fds[1]);
  for (ssize_t size; (size = ::read(fds[0], bytes, sizeof bytes)) > 0;)
    read.append(bytes, static_cast<size_t>(size));
  EXPECT_TRUE(read == text);
  ::close(fds[0]);
}

TEST(Outlet, FullDiskIsToldOnceAndCounted) {
  const int fd = ::open("/dev/full", O_WRONLY);
  ASSERT_GE(fd, 0);
  Outlet outlet(fd, "log");
  for (int i = 0; i < 3; ++i) {
    outlet.Append("12345\n");
    outlet.Flush();
    EXPECT_EQ(outlet.TakeComplaint().find("log: cannot write: No space left"),
              i == 0 ? 0u : std::string::npos);
  }
  EXPECT_EQ(outlet.lost_bytes(), 18u);
  EXPECT_EQ(outlet.backlog(), 0u);
  ::close(fd);
}

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

TEST_F(ConsoleTest, LinesStandBehindTheirProcess) {
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

TEST_F(ConsoleTest, ColorsAreForTerminals) {
  Console console = Make(true);
  console.ProcessLine(0, Stream::kOut, "x");
  console.Flush();
  EXPECT_EQ(test::ReadFile(folder_ / "out"), "\033[32mps 0      | \033[0mx\n");
}

TEST_F(ConsoleTest, LogFilesHoldTheLinesAsTheyWere) {
  Console console = Make(true, folder_ / "logs/here");
  console.ProcessLine(1, Stream::kOut, "one\x01");
  console.ProcessLine(1, Stream::kErr, "two");
  console.Flush();
  EXPECT_EQ(test::ReadFile(folder_ / "logs/here/worker-10.log"), "one\x01\ntwo\n");
  EXPECT_EQ(test::ReadFile(folder_ / "logs/here/ps-0.log"), "");
}

}  // namespace
}  // namespace millrace::tools
