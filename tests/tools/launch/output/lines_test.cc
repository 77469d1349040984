// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/output/lines.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "io/base/printable.h"

namespace millrace::launch {
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

TEST(LineSplitter, LinesDoNotDependOnThePiecesOfTheInput) {
  const std::string text = "one\n\ntwo\r\nthree\rFOUR\r\r\nfive\r\n\r\nlast";
  const Lines expected = {"one", "", "two", "three", "FOUR", "five", "", "last"};
  for (size_t size = 1; size <= text.size(); ++size) EXPECT_EQ(Split(text, size), expected) << size;
}

TEST(LineSplitter, UnfinishedLineIsKeptUntilItsEnd) {
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

TEST(LineSplitter, LineOfMaximumLengthIsNotCut) {
  const std::string line(LineSplitter::kMaxLine, 'x');
  EXPECT_EQ(Split(line + "\n", 100), Lines{line});
  EXPECT_EQ(Split(std::string(LineSplitter::kMaxLine + 8, '\x80')).size(), 2u) << "not UTF-8";
}

}  // namespace
}  // namespace millrace::launch
